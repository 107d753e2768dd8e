// The controls of the page: which machine for which applications, within a budget and a deadline,
// at prices that the reader may change. All numbers come from the data in the page; nothing is
// fetched. What the reader changed is not tested anew: it is shown as "what if", never as sure.
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const controls = byId("controls");
  const text = (value) => Number(value).toLocaleString("en-US", { maximumSignificantDigits: 4 });

  function element(name, words, kind) {
    const made = document.createElement(name);
    if (words !== undefined) made.textContent = words;
    if (kind) made.className = kind;
    return made;
  }

  function asked() {
    const prices = {};
    let changed = false;
    for (const input of controls.querySelectorAll("input[data-machine]")) {
      const price = input.value === "" ? null : Number(input.value);
      prices[input.dataset.machine] = price !== null && price >= 0 ? price : null;
      if (input.value !== input.defaultValue) changed = true;
    }
    const apps = [...controls.querySelectorAll("input[data-app]")];
    const limit = (id) => (byId(id).value === "" ? Infinity : Number(byId(id).value));
    const deadline = byId("deadline");
    if (apps.some((a) => !a.checked) || byId("budget").value !== "") changed = true;
    if (deadline.value !== deadline.defaultValue) changed = true;
    const chosen = apps.filter((a) => a.checked).map((a) => a.dataset.app);
    return { prices, changed, apps: chosen, budget: limit("budget"), deadline: limit("deadline") };
  }

  // The cost of 1,000 runs is linear in the price of a node-hour.
  const cost = (one, price) => (price === null ? null : one.fixed + one.node_hours * price);

  function best(machine, app, state) {
    const price = state.prices[machine];
    const worth = (one) => (data.by === "cost" && price !== null ? cost(one, price) : one.hours);
    const fit = data.offers.filter(
      (o) => o.machine === machine && o.app === app && o.late_s <= state.deadline
    );
    const known = fit.filter((o) => o.known);
    const from = known.length ? known : fit;
    return from.reduce((a, b) => (a === null || worth(b) < worth(a) ? b : a), null);
  }

  // All chosen applications on one machine; null where one of them has no offer.
  function whole(machine, state) {
    let shares = 0, total = 0, hours = 0, known = true;
    for (const app of state.apps) {
      const one = best(machine, app, state);
      if (!one) return null;
      const share = data.shares[app];
      shares += share;
      hours += share * one.hours;
      known = known && one.known;
      const amount = cost(one, state.prices[machine]);
      total = amount === null || total === null ? null : total + share * amount;
    }
    if (!shares) return null;
    total = total === null ? null : total / shares;
    if (total !== null && total > state.budget) return null;
    if (total === null && data.by === "cost") return null;
    return { machine, known, total, hours: hours / shares };
  }

  function cell(one, price) {
    if (!one) return element("td", "no offer", "none");
    const amount = cost(one, price);
    const value = amount === null ? text(one.hours) + " h" : text(amount);
    const spread = one.spread === null ? "" : " ±" + Math.round(100 * one.spread) + "%";
    const made = element("td", one.known ? value + spread : "not known");
    made.title = one.known ? one.config : one.why + " (" + value + ")";
    made.className = one.known ? "" : "unknown";
    made.dataset.value = amount === null ? one.hours : amount;
    return made;
  }

  // All chosen applications on one machine: what the last column shows.
  function total(machine, sum, state) {
    const mix = data.sure[data.mix];
    let made;
    if (!sum) made = element("td", "-", "none");
    else if (!sum.known) made = element("td", "not known", "unknown");
    else made = element("td", sum.total === null ? text(sum.hours) + " h" : text(sum.total), "");
    if (mix && mix.machine === machine && !state.changed) made.className = mix.kind;
    made.dataset.label = "all chosen";
    return made;
  }

  function matrix(state) {
    const found = data.machines.map((m) => ({ name: m.name, sum: whole(m.name, state) }));
    const least = {};
    const rows = found.map((m) => {
      const row = element("tr");
      const head = element("th", m.name);
      head.scope = "row";
      row.append(head);
      for (const app of state.apps) {
        const one = cell(best(m.name, app, state), state.prices[m.name]);
        one.dataset.label = app;
        const value = Number(one.dataset.value);
        if (one.className === "" && !(least[app] && least[app].value <= value)) {
          least[app] = { value, cell: one, machine: m.name };
        }
        row.append(one);
      }
      row.append(total(m.name, m.sum, state));
      return row;
    });
    for (const app of Object.keys(least)) {
      const sure = !state.changed && data.sure[app] && data.sure[app].machine === least[app].machine;
      least[app].cell.className = sure ? data.sure[app].kind : "guess";
    }
    const top = element("tr");
    for (const words of ["machine", ...state.apps, "all chosen"]) top.append(element("th", words));
    byId("matrix").tHead.replaceChildren(top);
    byId("matrix").tBodies[0].replaceChildren(...rows);
    return found.map((f) => f.sum).filter((s) => s);
  }

  function headline(sums, state) {
    const line = byId("headline");
    if (!state.changed) {
      line.textContent = data.headline;
      line.className = "headline " + data.kind;
      return;
    }
    const worth = (s) => (data.by === "cost" ? s.total : s.hours);
    const known = sums.filter((s) => s.known).sort((a, b) => worth(a) - worth(b));
    const pool = known.length ? known : sums;
    const amount = (s) =>
      (s.total === null ? "" : text(s.total) + " " + data.currency + ", ") + text(s.hours) + " h";
    line.className = "headline " + (known.length ? "guess" : "unknown");
    if (!pool.length) line.textContent = "What if: no machine has an offer within these limits.";
    else {
      const rest = pool.slice(1, 2).map((s) => "; then " + s.machine + ": " + amount(s));
      line.textContent =
        "What if, for " + state.apps.join(", ") + ": " + pool[0].machine + ", " + amount(pool[0]) +
        " for 1,000 runs" + rest.join("") +
        (known.length ? ". Not tested for chance." : ". Not known: all runs were disturbed.");
    }
  }

  function update() {
    const state = asked();
    headline(matrix(state), state);
  }

  controls.addEventListener("input", update);
  controls.addEventListener("reset", () => setTimeout(update, 0));
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.hidden = false;
  update();
})();
