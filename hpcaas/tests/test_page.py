"""The page in headless Chromium: its numbers are those of the file, its controls work, grey is
what is not known, and nothing is clipped on a wide or a narrow window."""

import shutil

import pytest
from test_answers import c, of_shape
from test_machines import PRICES
from test_trust import rows

from hpcaas.answers.advise import advise, headline
from hpcaas.answers.costs import paper_pricing, price_machines
from hpcaas.answers.decide import pick
from hpcaas.answers.groups import groups
from hpcaas.dataset import paper
from hpcaas.model import Load, merge
from hpcaas.prices import load_catalogue
from hpcaas.report.page import page

pytestmark = pytest.mark.browser
GREEN, YELLOW, GREY = "rgb(230, 244, 234)", "rgb(255, 244, 214)", "rgb(231, 233, 236)"
CLIPPED = """
const inside = (e) => { const r = e.getBoundingClientRect();
  return r.width === 0 || (r.left >= -1 && r.right <= window.innerWidth + 1); };
const cut = (e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0;
return [...document.querySelectorAll('p, td, th, li, .wide, form, fieldset, svg, h2, pre')]
  .filter((e) => !inside(e) || (e.matches('.wide, td, th, fieldset') && cut(e)))
  .slice(0, 5).map((e) => e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 60));
"""


@pytest.fixture(scope="module")
def four():
    """Four shapes, three instances of each; of the last, which would be cheapest, every run was
    disturbed."""
    sets = []
    for seed, (shape, seconds) in enumerate((("a", 10), ("b", 12), ("d", 14), ("noisy", 9))):
        for name in ("one", "two"):
            times = {c(mpi="x"): seconds, c(mpi="y"): seconds * 1.2}
            sets.append(of_shape(times, shape, 3, seed, repeats=4, app=name))
            for sample in sets[-1].samples:
                sample.id = name + sample.id
                if shape == "noisy":
                    sample.load = Load(waited_fraction=0.5)
    return merge(sets)


def at(shape):
    return f"p/{shape}@r"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("no chromium with its driver here: apt-get install chromium chromium-driver")
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = program
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield found
    found.quit()


def shown(browser, text, where, width=1280, height=900):
    """Opens a page. The window has a least width: the viewport is set instead, as on a phone."""
    (where / "page.html").write_text(text)
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get((where / "page.html").as_uri())
    assert browser.execute_script("return window.innerWidth") == width


def cells(browser):
    """{(machine, application): (text, background, value)} of the matrix."""
    found = browser.execute_script(
        "return [...document.querySelectorAll('#matrix tbody tr')].flatMap(r =>"
        " [...r.querySelectorAll('td')].map(c => [r.querySelector('th').textContent,"
        " c.dataset.label, c.textContent, getComputedStyle(c).backgroundColor,"
        " c.dataset.value]))"
    )
    return {(m, a): (text, colour, value) for m, a, text, colour, value in found}


def fill(browser, selector, value):
    browser.execute_script(
        "const e = document.querySelector(arguments[0]);"
        " if (e.type === 'checkbox') e.checked = arguments[1]; else e.value = arguments[1];"
        " e.dispatchEvent(new Event('input', { bubbles: true }));",
        selector,
        value,
    )


def line(browser):
    return browser.execute_script(
        "const e = document.getElementById('headline');"
        " return [e.textContent, getComputedStyle(e).backgroundColor]"
    )


@pytest.fixture()
def four_shown(browser, four, tmp_path):
    pricing = price_machines(four, rows(*PRICES), [])
    shown(browser, page(four, pricing, "Four machines"), tmp_path)
    return pricing


def test_the_numbers_of_the_matrix_are_those_of_the_file(browser, four, four_shown):
    matrix = cells(browser)
    for machine in map(at, ("a", "b", "d", "noisy")):
        for app in ("one s", "two s"):
            mine = [g for g in groups(four) if (g.machine, g.name) == (machine, app)]
            best = pick(mine, four_shown, None, "cost")[0]
            assert float(matrix[machine, app][2]) == pytest.approx(best.amount, rel=1e-9)
            number = matrix[machine, app][0].split(" ")[0].replace(",", "")
            assert number == "not" or float(number) == pytest.approx(best.amount, rel=1e-3)
    advice = advise(four, four_shown)
    assert line(browser) == [headline(advice), GREEN]
    mix = {o.machine: o.amount for o in advice.mix_offers}
    for machine in map(at, ("a", "b", "d")):
        number = float(matrix[machine, "all chosen"][0].replace(",", ""))
        assert number == pytest.approx(mix[machine], rel=1e-3)


def test_not_known_is_grey_and_never_green(browser, four_shown):
    matrix = cells(browser)
    for column in ("one s", "two s", "all chosen"):
        assert matrix[at("noisy"), column][:2] == ("not known", GREY)
    assert matrix[at("a"), "one s"][1] == GREEN
    said = browser.find_elements("css selector", "#answer td.sure")
    assert said and not any("not known" in e.get_attribute("textContent") for e in said)


def test_what_if_prices_and_filters_answer_in_the_page(browser, four_shown):
    before = float(cells(browser)[at("d"), "one s"][2])
    fill(browser, "input[data-machine='p/d@r']", "0.4")  # a tenth
    after = cells(browser)
    assert float(after[at("d"), "one s"][2]) == pytest.approx(before / 10)
    text, colour = line(browser)
    assert text.startswith("What if, for one s, two s: p/d@r, ") and colour == YELLOW
    assert after[at("d"), "one s"][1] == YELLOW  # best, but not tested anew: never green
    fill(browser, "#deadline", "13")
    assert cells(browser)[at("d"), "one s"][0] == "no offer" and ": p/a@r, " in line(browser)[0]
    fill(browser, "#budget", "1")
    assert line(browser)[0].endswith("no machine has an offer within these limits.")
    fill(browser, "#budget", "")
    fill(browser, "input[data-app='two s']", False)
    assert (at("a"), "two s") not in cells(browser) and "for one s:" in line(browser)[0]
    browser.find_element("css selector", "#controls button").click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert line(browser)[1] == GREEN and (at("a"), "two s") in cells(browser)


@pytest.mark.parametrize("width, height", [(1280, 900), (400, 800)])
@pytest.mark.parametrize("which", ["four", "paper"])
def test_nothing_is_clipped(browser, four, tmp_path, which, width, height):
    if which == "paper":
        results = paper()
        catalogue = load_catalogue()
        pricing = price_machines(results, catalogue, paper_pricing(results, catalogue))
    else:
        results = four
        pricing = price_machines(four, rows(*PRICES), [])
    shown(browser, page(results, pricing, which), tmp_path, width, height)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(CLIPPED) == []
    assert browser.execute_script(
        "return [...document.querySelectorAll('nav a')]"
        ".every(a => document.querySelector(a.getAttribute('href')))"
    )
    order = browser.execute_script(
        "return [...document.querySelectorAll('section')].map(s => s.id)"
    )
    assert order[0] == "answer" and order[-2:] == ["lessons", "provenance"]
    assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []
