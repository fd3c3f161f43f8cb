// Package shimproto owns what agent and helper program say to each other: frames on a shim's socket, their messages,
// and how both are encoded. client/shim and cmd/berth-helper import it; nobody else does.
//
// A shim outlives upgrades of the agent, so old and new speak together: a message is a list of numbered fields, a field
// that the reader does not know is skipped, a field that is missing has its zero value, and numbers are never reused. A
// change that an old reader may not skip raises Version.
//
// A connection carries one conversation: the agent sends Hello, the shim answers HelloReply, the agent sends one
// request, the shim answers with TypeDone, TypeEnded or TypeFault. Wait is answered when the process ends; the end of
// the connection before that is how the agent learns of the shim's end. Exec is answered at once and goes on with
// stream frames.
//
// Every request may be repeated, doubled, late, or cut off by the end of either side. So each names a task and an
// attempt (the how-manieth start of the task), and the shim remembers how the last Kept attempts of each task ended:
// a request about one of them is answered with that end, and touches no other attempt. A request about an attempt
// that the shim never heard of is TypeFault with NotFound.
//
//   - Launch of an attempt that starts or runs is answered like the first Launch of it. An older attempt of the task
//     that still lives is ended first. A Launch goes on when its agent hangs up: that one comes back and asks for the
//     same attempt again, or kills it. (Earlier shims cancelled it when its agents had all hung up before an answer.)
//   - Kill signals once and sets a deadline; another one may only bring the deadline nearer. Nobody has to wait for it:
//     the deadline is the shim's, in CLOCK_BOOTTIME, so that it may also pass while the machine is suspended.
//   - Bye means "end as soon as you hold nothing". It is remembered; an accepted Launch withdraws it.
//   - Lease gives all tasks a deadline in the same clock; renewals that are older than the newest are ignored.
//
// Version 1 knew neither tasks' attempts nor ends: a shim of it answers errors about what is gone. An attempt is
// missing there and stands in the name, "<task>.<attempt>".
package shimproto

// Version is the newest protocol that this code speaks, MinVersion the oldest. A shim lives as long as its alloc, so
// that an agent meets shims of every version between.
const (
	Version    = 2
	MinVersion = 1
)

// Kept is how many ends of a task's attempts a shim remembers.
const Kept = 16

// MaxBundle bounds what Launch may give a shim to keep.
const MaxBundle = 4 << 20

// Type says what a frame carries.
type Type uint8

// Types of frames. They are part of the protocol: append only.
const (
	TypeHello      Type = 1 // Hello: the agent's first frame
	TypeHelloReply Type = 2
	TypeDone       Type = 3 // the request was carried out; the payload is the request's reply
	TypeFault      Type = 4 // Fault: it was not
	TypeEnded      Type = 5 // Ended: the attempt that the request is about has ended; not in version 1

	TypeLaunch Type = 10 // Launch → Launched
	TypeWait   Type = 11 // Named → Exit, when the process has ended
	TypeSignal Type = 12 // Signal → nothing
	TypeKill   Type = 13 // Kill → Exit, when no process is left
	TypeForget Type = 14 // Named → Forgotten; its end is not waited for any more
	TypeExec   Type = 15 // Exec → nothing, then streams
	TypeStats  Type = 16 // Named → Stats
	TypeList   Type = 17 // nothing → List
	TypeBye    Type = 18 // nothing → Forgotten: the shim exits as soon as it holds nothing
	TypeLease  Type = 19 // Lease → Lease, as it stands now; not in version 1

	TypeStdin      Type = 30 // bytes for the command
	TypeStdinClose Type = 31
	TypeResize     Type = 32 // Resize
	TypeStdout     Type = 33
	TypeStderr     Type = 34
	TypeExit       Type = 35 // Exit: the last frame of an exec
)
