/* The flags of a group's members on one node (src/job/flags.hpp): steps of meetings, broadcasts and
 * reductions to a root, in every order, of data that lies in lines or (wide) in places. No data is
 * overwritten before it was read, and (SLEEP) nobody sleeps for ever.
 *
 * Each #ifdef takes one of these rules away; the checker must then find a mistake:
 *   NEXT_WAITS: a member writes step s only when all have posted step s - LINES + 1, of wide data
 *     step s - PLACES + 1.
 *   WIDE_WAITS: wide data waits for that step of PLACES.
 *   POST_AFTER_READING: who posts step s has read what it wanted of the steps before.
 *   POST_THEN_LOOK: who posts looks for sleepers after its flag is set.
 *   COUNT_THEN_LOOK: who sleeps is counted, then looks at the flag once more.
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef STEPS
#define STEPS 4
#endif
#ifndef LINES
#define LINES 3
#endif
#ifndef PLACES
#define PLACES 2
#endif

#define AT(m, s) ((m) * LINES + (s) % LINES)
#define PLACE(m, s) ((m) * PLACES + (s) % PLACES)
#define NONE 255
#define MEETING 1
#define BROADCAST 2 /* + root */
#define REDUCE (2 + MEMBERS)

byte kind[STEPS + 1]; /* of each step; 0: nobody has come to it yet */
bool wide[STEPS + 1];
byte line[MEMBERS * LINES];
byte data[MEMBERS * LINES]; /* the step of which it is */
byte place[MEMBERS * PLACES];
byte asleep = 0;
byte waits_for[MEMBERS]; /* NONE: for nobody */
byte bell[MEMBERS];
byte through = 0; /* members that have taken all steps */

#ifdef SLEEP
inline wait_for(m, s) {
  if
  :: line[AT(m, s)] >= s
  :: else ->
       waits_for[me] = m;
#ifndef COUNT_THEN_LOOK
       asleep++;
#endif
       do
       :: heard = bell[me];
          if
          :: line[AT(m, s)] >= s -> break
          :: else ->
#ifdef COUNT_THEN_LOOK
               asleep++;
#endif
               (bell[me] != heard);
#ifdef COUNT_THEN_LOOK
               asleep--
#endif
          fi
       od;
#ifndef COUNT_THEN_LOOK
       asleep--;
#endif
       waits_for[me] = NONE
  fi
}

inline wake() {
  w = 0;
  do
  :: w == MEMBERS -> break
  :: w < MEMBERS && waits_for[w] == me -> bell[w]++; w++
  :: w < MEMBERS && waits_for[w] != me -> w++
  od
}

inline post() {
#ifdef POST_THEN_LOOK
  looked = asleep;
  line[AT(me, s)] = s;
#else
  line[AT(me, s)] = s;
  looked = asleep;
#endif
  if
  :: looked > 0 -> wake()
  :: else
  fi
}
#else /* who waits looks all the time */
inline wait_for(m, s) { (line[AT(m, s)] >= s) }
inline post() { line[AT(me, s)] = s }
#endif

/* Reads what the member gave to step t. */
inline read(r, t) {
  assert(wide[t] || data[AT(r, t)] == t);
  assert(!wide[t] || place[PLACE(r, t)] == t)
}

proctype Member(byte me) {
  byte s = 0, met = 0, heard = 0, m, w, looked, late = NONE, room;
  do
  :: s == STEPS -> break
  :: s < STEPS ->
       atomic {
         s++;
         if
         :: kind[s] != 0
         :: kind[s] == 0 ->
              if
              :: kind[s] = MEETING
              :: kind[s] = BROADCAST
              :: kind[s] = BROADCAST + 1
              :: kind[s] = REDUCE
              :: kind[s] = REDUCE + 1
              fi;
#ifndef SLEEP
              if
              :: wide[s] = true
              :: wide[s] = false
              fi
#endif
         fi;
#ifdef WIDE_WAITS
         room = LINES
#else
         room = (wide[s] -> PLACES : LINES)
#endif
       };
#ifndef NEXT_WAITS
       if
       :: s - met >= room ->
            m = 0;
            do
            :: m == MEMBERS -> break
            :: m == me -> m++
            :: m < MEMBERS && m != me -> wait_for(m, (s - room + 1)); m++
            od;
            met = s - room + 1
       :: else
       fi;
#endif
       if
       :: kind[s] < BROADCAST || kind[s] == BROADCAST + me || kind[s] >= REDUCE ->
            if
            :: wide[s] -> place[PLACE(me, s)] = s
            :: else -> data[AT(me, s)] = s
            fi
       :: else
       fi;
       post();
       if
       :: late != NONE -> read(late, s - 1); late = NONE
       :: else
       fi;
       if
       :: kind[s] == MEETING || kind[s] == REDUCE + me ->
            m = 0;
            do
            :: m == MEMBERS -> break
            :: m == me -> m++
            :: m < MEMBERS && m != me -> wait_for(m, s); read(m, s); m++
            od;
            met = s
       :: kind[s] >= BROADCAST && kind[s] < REDUCE && kind[s] != BROADCAST + me ->
            wait_for(kind[s] - BROADCAST, s);
#ifdef POST_AFTER_READING
            late = kind[s] - BROADCAST
#else
            read(kind[s] - BROADCAST, s)
#endif
       :: else
       fi
  od;
  through++
}

/* Nothing can move any more: then all must be through. */
active proctype Judge() {
  timeout -> assert(through == MEMBERS)
}

init {
  atomic {
    byte i = 0;
    do
    :: i == MEMBERS -> break
    :: i < MEMBERS -> waits_for[i] = NONE; run Member(i); i++
    od
  }
}
