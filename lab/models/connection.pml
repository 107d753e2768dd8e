/* One connection between an origin and a data server, and the session above it: opening, draining, bye, closing, breaking, resuming, and
 * everything that may cross. The origin is src/connection/machine.cpp with the engine around it, the server is src/server. Despite
 * all breaks every request is applied exactly once and in order, and in the end all are done and the connection is closed.
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   DUPLICATE_APPLIED: a duplicate is answered, not applied.
 *   RESULT_FORGOTTEN_EARLY: results are kept until confirmed.
 *   REPORT_BEFORE_DESTROY: destroy the old endpoint, then report the last applied number.
 *     Otherwise the rest of a long put overwrites a later one.
 *   OLD_GENERATION_ADMITTED: generations only grow.
 *   LATE_EVENT_COUNTS: an event of an older connection does nothing (its endpoint has no link).
 *   BYE_UNDRAINED: bye only when nothing is unacknowledged.
 *   SEND_AFTER_BYE: nothing follows a bye.
 *
 * A break is two pieces of news, one for each end, heard at any later time: what an end has not read by then is lost.
 */
#define REQUESTS 4 /* 1: read-modify-write, 2 and 4: long puts to one place, 3: accumulate */
#define is_put(n) (n == 2 || n == 4)
#ifndef BREAKS
#define BREAKS 2   /* how often the network breaks a connection */
#endif
#ifndef CLOSES
#define CLOSES 1   /* how often the cap evicts it, or the server asks to close it, before the end of the job */
#endif
#define ATTEMPTS (BREAKS + CLOSES + 1)

mtype = { idle, opening, open, draining, closing };                                    /* connection::State */
mtype = { request, bye, accept, acknowledge, result, bye_answer, please_close };

/* The network, by generation. */
chan hellos = [ATTEMPTS + 1] of { byte, bool };                                         /* generation, replayed by another peer */
chan up[ATTEMPTS + 1] = [REQUESTS + 2] of { mtype, byte, bool };                       /* kind, number, results received */
chan down[ATTEMPTS + 1] = [REQUESTS + 4] of { mtype, byte };                           /* kind, applied */
chan origin_hears = [2 * ATTEMPTS] of { byte };                                        /* this generation is gone */
chan server_hears = [2 * ATTEMPTS] of { byte };
byte breaks = BREAKS, closes = CLOSES;
bool replay = true;                         /* another peer may replay a recorded hello, once */

/* The origin. */
mtype state = idle;
byte generation = 0, endpoint = 0;          /* endpoint 0: none */
bool has_result = false;
byte issued = 0, applied = 0;               /* applied: as far as the server told */
bool over = false;                          /* everything is done and closed */
#define unacknowledged (applied < issued || (issued >= 1 && !has_result))

/* The server. */
byte known = 0, client = 0;                 /* newest generation it admitted; its endpoint, 0: none */
byte server_applied = 0, told = 0;          /* told: the newest applied that went out over `client` */
byte landing = 0;                           /* a long put whose payload is being received; 0: none */
bool kept = false;                          /* the result of request 1 */
byte old = 0, old_landing = 0;              /* an endpoint that should be gone: only where a rule is missing */

/* What the target's memory saw. */
byte times[REQUESTS + 1];
byte content = 0;                           /* the put whose data the memory holds */

inline connect() {
  state = opening;
  generation++;
  endpoint = generation;
  hellos!generation, false;
  printf("origin: connects, generation %d\n", generation)
}
inline send(n) { up[endpoint]!request, n, has_result }
inline disconnect() {
  server_hears!endpoint;
  endpoint = 0
}
inline say_bye() {
  state = closing;
  up[endpoint]!bye, issued, false;
  printf("origin: says bye after %d\n", issued)
}
inline evict() {
#ifdef BYE_UNDRAINED
  say_bye()
#else
  if
  :: !unacknowledged -> say_bye()
  :: else -> state = draining; printf("origin: drains\n")
  fi
#endif
}

active proctype Origin() {
  byte n, a;
  do
  /* The program's next request: Links::wait_open, then send. */
  :: atomic { issued < REQUESTS && state == open -> issued++; send(issued); printf("origin: request %d\n", issued) }
#ifdef SEND_AFTER_BYE
  :: atomic { issued < REQUESTS && state == closing -> issued++; send(issued); printf("origin: request %d\n", issued) }
#endif                                                                                  /* crossing: a request while it closes: asks again when idle */
  :: atomic { issued < REQUESTS && state == draining -> state = open }                /* crossing: reused before bye */
  :: atomic { state == idle && issued < REQUESTS -> connect() }                       /* wanted */

  :: atomic { state == open && closes > 0 && issued > 0 -> closes--; evict() }
  :: atomic { state == open && issued == REQUESTS && !unacknowledged -> evict() }     /* the end of the job */
  :: atomic { state == draining && !unacknowledged -> say_bye() }

  /* Its slot is needed: it closes, not waiting for the answer to its bye (Links::close_leavers). */
  :: atomic { state == closing -> printf("origin: closes generation %d unanswered\n", endpoint); disconnect(); state = idle }

  :: atomic { endpoint != 0 && nempty(down[endpoint]) ->
       if
       :: down[endpoint]?accept(a) ->
            assert(state == opening && applied <= a && a <= issued);
            state = open;
            applied = a;
            printf("origin: open, %d of %d are applied\n", applied, issued);
            n = 1;
            do
            :: n > issued -> break
            :: n <= issued && (n > applied || (n == 1 && !has_result)) -> send(n); printf("origin: replays %d\n", n); n++
            :: else -> n++
            od;
            n = 0
       :: down[endpoint]?acknowledge(a) ->
            assert(a <= issued);
            if
            :: a > applied -> applied = a
            :: else                                                                   /* late */
            fi
       :: down[endpoint]?result(a) -> has_result = true
       :: down[endpoint]?please_close(a) ->
            if
            :: state == open -> evict()
            :: else                                                                   /* crossing: on its way already */
            fi
       :: down[endpoint]?bye_answer(a) ->
            assert(state == closing);
            printf("origin: closes generation %d\n", endpoint);
            disconnect();
            state = idle
       fi;
       a = 0 }

  :: atomic { origin_hears?a ->
       if
#ifdef LATE_EVENT_COUNTS
       :: endpoint != 0 ->
#else
       :: endpoint != 0 && a == endpoint ->
#endif
            printf("origin: hears that generation %d is gone, has %d\n", a, endpoint);
            assert(a == endpoint);                                                    /* no late event ends the new connection */
            endpoint = 0;
            if
            :: state == closing -> state = idle
            :: state == opening -> connect()                                          /* refused or broken: tries again */
            :: state == open || state == draining ->
                 if
                 :: unacknowledged -> connect()                                       /* resumes */
                 :: else -> state = idle                                              /* an unplanned teardown */
                 fi
            fi
       :: else                                                                        /* late: of an endpoint that was replaced */
       fi;
       a = 0 }

  :: atomic { state == idle && issued == REQUESTS && !unacknowledged -> over = true; break }
  od
}

/* One request is applied: Applier::apply, Server::finish. */
inline apply(n) {
  times[n]++;
  if
  :: is_put(n) -> content = n
  :: n == 1 -> kept = true; down[client]!result, n
  :: else
  fi;
  server_applied++;
  printf("server: applies %d\n", n)
}
inline discard(g) {
  do
  :: up[g]?_, _, _
  :: empty(up[g]) -> break
  od
}

active proctype Server() {
  byte g, n;
  mtype kind;
  bool received, replayed;
  do
  :: atomic { hellos?g, replayed ->
       if
#ifdef OLD_GENERATION_ADMITTED
       :: true ->
#else
       :: g > known ->
#endif
            assert(!replayed);                                                        /* only the origin replaces its connection */
            if
            :: client != 0 ->
#ifdef REPORT_BEFORE_DESTROY
                 old = client; old_landing = landing
#else
                 discard(client)
#endif
            :: else
            fi;
            landing = 0;
            known = g;
            client = g;
            told = server_applied;
            down[client]!accept, server_applied;
            printf("server: accepts generation %d, %d are applied\n", g, server_applied)
#ifndef OLD_GENERATION_ADMITTED
       :: else ->                                                                     /* overtaken, or replayed */
            printf("server: refuses generation %d\n", g);
            if
            :: !replayed -> origin_hears!g
            :: else
            fi
#endif
       fi;
       g = 0; replayed = false }

  /* Payload still arrives from an endpoint that should be gone. */
  :: atomic { old_landing != 0 -> printf("server: the rest of put %d lands late\n", old_landing); content = old_landing; old_landing = 0 }

  :: atomic { client != 0 && landing != 0 -> apply(landing); landing = 0 }
  :: atomic { client != 0 && landing == 0 && nempty(up[client]) ->
       up[client]?kind, n, received;
       if
       :: kind == bye ->
            assert(n == server_applied);                                              /* otherwise a protocol error */
            if
            :: told < server_applied -> down[client]!acknowledge, server_applied; told = server_applied
            :: else
            fi;
            down[client]!bye_answer, server_applied
       :: kind == request ->
#ifdef RESULT_FORGOTTEN_EARLY
            if
            :: n > 1 -> kept = false                                                  /* "it was sent, that will do" */
            :: else
            fi;
#else
            if
            :: received -> kept = false
            :: else
            fi;
#endif
            if
            :: n == server_applied + 1 && is_put(n) -> landing = n; printf("server: put %d begins to land\n", n)
            :: n == server_applied + 1 && !is_put(n) -> apply(n)
            :: n <= server_applied ->                                                 /* a duplicate: the answer again, not the effect */
                 if
#ifdef DUPLICATE_APPLIED
                 :: n == 1 -> times[1]++; down[client]!result, n; printf("server: applies %d\n", n)
#else
                 :: n == 1 && kept -> down[client]!result, n
#endif
                 :: else
                 fi
            :: else -> assert(false)                                                  /* a gap */
            fi
       fi;
       n = 0; kind = 0; received = false }
  /* One acknowledgement for all that was applied since the last, at leisure. */
  :: atomic { client != 0 && told < server_applied && nfull(down[client]) -> told = server_applied; down[client]!acknowledge, told }
  :: atomic { client != 0 && closes > 0 && nfull(down[client]) -> closes--; down[client]!please_close, 0; printf("server: asks to close\n") }
  /* Short of connection slots it drops an idle connection without asking: for the origin a break like any other. */
  :: atomic { client != 0 && landing == 0 && closes > 0 && empty(up[client]) ->
       closes--;
       printf("server: drops generation %d\n", client);
       origin_hears!client;
       discard(client);
       client = 0 }

  :: atomic { server_hears?g ->
       if
       :: g == client -> discard(client); landing = 0; client = 0; printf("server: hears that generation %d is gone\n", g)
       :: else                                                                        /* late */
       fi;
       g = 0 }
  od
}

active proctype Network() {
  do
  :: atomic { breaks > 0 && endpoint != 0 -> breaks--; origin_hears!endpoint; server_hears!endpoint; printf("network: breaks generation %d\n", endpoint) }
  :: atomic { replay && generation > 0 -> replay = false; hellos!generation, true; printf("stranger: replays the hello of generation %d\n", generation) }
  :: atomic { breaks > 0 && client != 0 && client != endpoint -> breaks--; server_hears!client; printf("network: breaks generation %d\n", client) }
  od
}

/* When no process can move, all must be done. */
active proctype Judge() {
  timeout -> atomic {
    printf("judge: issued %d, acknowledged %d, applied %d, content %d\n", issued, applied, server_applied, content);
    assert(issued == REQUESTS && applied == REQUESTS && has_result);
    assert(over);
    assert(times[1] == 1 && times[2] == 1 && times[3] == 1 && times[4] == 1);
    assert(content == 4)
  }
}
