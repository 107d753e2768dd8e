/* Memory that a group keeps between two segments (src/job/reserve.hpp, src/memory/segment.cpp): two
 * members of a node, each with a slice, and the broker, which gives pages back when somebody needs
 * memory. Members free the segment (a meeting), keep its pages, make their slices ready for the
 * next one, and tell each other whether they could (an exchange). If all could, the next life
 * begins; otherwise the memory goes, and a new one begins.
 *
 * Held: while a segment lives, the pages of all its slices exist, and the header has its id. A life
 * that one member begins is begun by all. Nobody waits for ever.
 *
 * Each rule that is taken away must be found:
 *   GIVE_BACK_UNMARKED: the broker says that pages leave before it gives them back.
 *   TAKE_BY_STORE: the owner takes kept pages by a compare-and-swap.
 *   ID_BY_ONE: every member stores the id, not only the first: another may withdraw the last one
 *     later than that.
 *   READY_AFTER_EXCHANGE: a slice is ready before its owner says so.
 *   REVIVE_ALONE: a member that could not make its slice ready keeps the others from going on.
 */
#ifndef LIVES
#define LIVES 4
#endif

mtype = { used, kept, leaving, gone };

mtype pages[2] = used;
bool there[2] = true;
byte id = 1;              /* in the header; 0: none */
byte met[2 * LIVES + 2];  /* by meeting: members that have come */
byte could[LIVES + 1];    /* by exchange: members that made their slices ready */
bool over[2];

inline meet(m) {
  met[m]++;
  met[m] == 2
}

inline check_life(life) {
  assert(there[0] && there[1] && id == life)
}

inline keep(i) {
  id = 0;  /* withdraw: may come after the other member's next id */
  pages[i] = kept
}

inline wake_up(i, life) {
  ok = true;
#ifdef TAKE_BY_STORE
  if
  :: pages[i] == kept -> pages[i] = used
  :: pages[i] != kept -> pages[i] == gone; pages[i] = used
  fi;
#else
  if
  :: atomic { pages[i] == kept -> pages[i] = used }
  :: atomic { pages[i] != kept -> skip }; pages[i] == gone; pages[i] = used
  fi;
#endif
  if
  :: there[i]
  :: !there[i] -> there[i] = true; printf("member %d takes new pages\n", i)
  :: !there[i] -> ok = false; pages[i] = gone; printf("member %d finds no memory\n", i)
  fi;
  if
  :: ok ->
#ifdef ID_BY_ONE
     if
     :: i == 0 -> id = life
     :: else
     fi
#else
     id = life
#endif
  :: else
  fi
}

active [2] proctype member() {
  byte life = 1;
  bool ok;
  do
  :: life == LIVES -> break
  :: life < LIVES ->
     check_life(life);
     meet(2 * life);  /* the end of free: all are past their last use */
     keep(_pid);
#ifndef READY_AFTER_EXCHANGE
     wake_up(_pid, life + 1);
#else
     ok = true;
#endif
     if
     :: ok -> could[life]++
     :: else
     fi;
     meet(2 * life + 1);
#ifdef READY_AFTER_EXCHANGE
     wake_up(_pid, life + 1);
#endif
#ifdef REVIVE_ALONE
     if
     :: ok -> skip
#else
     if
     :: could[life] == 2 -> skip
#endif
     :: else ->
        /* go_back, and the memory goes: the broker makes new one for both before either has it. */
        printf("member %d gives it up\n", _pid);
        atomic { pages[_pid] = used; there[_pid] = true; id = life + 1 };
        (pages[0] == used && pages[1] == used && there[0] && there[1])
     fi;
     life++
  od;
  over[_pid] = true
}

active proctype broker() {
  byte i;
  do
  :: over[0] && over[1] -> break
  :: i = 0; goto give_back
  :: i = 1;
give_back:
#ifdef GIVE_BACK_UNMARKED
     if
     :: pages[i] == kept ->
        there[i] = false;
        printf("the broker takes the pages of member %d\n", i);
        pages[i] = gone
     :: pages[i] != kept
     fi
#else
     if
     :: atomic { pages[i] == kept -> pages[i] = leaving };
        there[i] = false;
        printf("the broker takes the pages of member %d\n", i);
        pages[i] = gone
     :: pages[i] != kept
     fi
#endif
  od
}
