/* The two pools of src/share/message.hpp: what waits in a data server on its way to another. Two
 * servers of one cluster, and three clients: clients 0 and 2 enter by server 0 for memory of
 * server 1, client 1 the other way round. A server receives from its clients, forwards to the
 * other server, and applies what was forwarded to it. An answer that its client has not taken
 * keeps the client's next request from being applied, as a full window does.
 *
 * As the code does it, a message is always received; a pool that is over its limit then ends the
 * channel that keeps most in it, unless it is the only one there, and the session sends again
 * what was kept. With WAITS a message is received only if its pool has room (credits), which is
 * enough if every client takes its answers at once. With STUBBORN client 0 takes none until
 * client 2 is through: it computes, or waits for something that client 2 does.
 *
 * Each of these rules that is taken away must be found, since somebody is not through:
 *   SINGLE_POOL: what servers forward waits in a pool of its own.
 *   WAIT_FOR_ROOM: nothing waits for room in a pool.
 */
#ifndef ROOM
#define ROOM 2      /* messages in a pool */
#endif
#ifndef REQUESTS
#define REQUESTS 3  /* of each client */
#endif
#define CLIENTS 3
#define gate(c) ((c) & 1)      /* the server that it sends to */
#define target(c) (1 - gate(c))
#ifdef SINGLE_POOL             /* forwarded messages wait in the clients' pool */
#define WAITS
#endif
#ifdef WAIT_FOR_ROOM           /* a message waits until its pool has room */
#define WAITS
#define STUBBORN
#endif

byte unsent[CLIENTS] = REQUESTS;  /* at the client: in its replay log until applied */
byte at_gate[CLIENTS];            /* in the pool for clients */
byte at_target[CLIENTS];          /* in the pool for servers */
byte answers[CLIENTS];            /* applied, and the answer is not taken */
byte through[CLIENTS];            /* answers taken */

#define from_clients(s) ((s) == 0 -> at_gate[0] + at_gate[2] : at_gate[1])
#define from_servers(s) ((s) == 1 -> at_target[0] + at_target[2] : at_target[1])
#ifdef SINGLE_POOL
#define room_for_client(s) (from_clients(s) + from_servers(s) < ROOM)
#define room_for_server(s) (from_clients(s) + from_servers(s) < ROOM)
#else
#define room_for_client(s) (from_clients(s) < ROOM)
#define room_for_server(s) (from_servers(s) < ROOM)
#endif
#ifdef STUBBORN
#define takes(c) ((c) != 0 || through[2] == REQUESTS)
#else
#define takes(c) true
#endif
#define all_through (through[0] == REQUESTS && through[1] == REQUESTS && through[2] == REQUESTS)

/* Of the channels of 0 and 2, which share pools, the one that keeps more ends: its session has
 * everything in its log. One that keeps something alone stays, as client 1's always does: its
 * window bounds it. */
inline relieve(first, third) {
  if
  :: first == 0 || third == 0
  :: first >= third && third > 0 -> unsent[0] = unsent[0] + first; first = 0;
     printf("the channel of client 0 ends: no room\n")
  :: third > first && first > 0 -> unsent[2] = unsent[2] + third; third = 0;
     printf("the channel of client 2 ends: no room\n")
  fi
}

inline receive(c) {
  unsent[c]--;
  at_gate[c]++;
  printf("server %d receives of client %d\n", gate(c), c);
#ifndef WAITS
  if
  :: gate(c) == 0 && from_clients(0) > ROOM -> relieve(at_gate[0], at_gate[2])
  :: else
  fi;
  assert(from_clients(0) <= ROOM || at_gate[0] == 0 || at_gate[2] == 0)
#endif
}

inline forward(c) {
  at_gate[c]--;
  at_target[c]++;
  printf("server %d forwards for client %d\n", gate(c), c);
#ifndef WAITS
  if
  :: target(c) == 1 && from_servers(1) > ROOM -> relieve(at_target[0], at_target[2])
  :: else
  fi;
  assert(from_servers(1) <= ROOM || at_target[0] == 0 || at_target[2] == 0)
#endif
}

#ifdef WAITS
#define may_receive(c) (unsent[c] > 0 && room_for_client(gate(c)))
#define may_forward(c) (at_gate[c] > 0 && room_for_server(target(c)))
#else
#define may_receive(c) (unsent[c] > 0)
#define may_forward(c) (at_gate[c] > 0)
#endif

#define may_move(c) (may_receive(c) || may_forward(c) || \
  (at_target[c] > 0 && answers[c] == 0) || (answers[c] > 0 && takes(c)))

active proctype servers() {
  byte c;
  do
  :: atomic { all_through -> break }
  :: atomic { !all_through -> select(c : 0 .. 2);
     if
     :: may_receive(c) -> receive(c)
     :: may_forward(c) -> forward(c)
     :: at_target[c] > 0 && answers[c] == 0 -> at_target[c]--; answers[c]++;
        printf("server %d applies a request of client %d\n", target(c), c)
     :: answers[c] > 0 && takes(c) -> answers[c]--; through[c]++;
        printf("client %d takes an answer\n", c)
     :: else ->
        if
        :: may_move(0) || may_move(1) || may_move(2)  /* another client's turn */
        :: else -> printf("nothing moves, and somebody is not through\n"); assert(false)
        fi
     fi }
  od;
  assert(unsent[0] + unsent[1] + unsent[2] == 0)
}
