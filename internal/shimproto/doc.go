// Package shimproto owns what agent and helper program say to each other: frames on a shim's socket, their messages,
// and how both are encoded. client/shim and cmd/berth-helper import it; nobody else does.
//
// A shim outlives upgrades of the agent, so old and new speak together: a message is a list of numbered fields, a field
// that the reader does not know is skipped, a field that is missing has its zero value, and numbers are never reused. A
// change that an old reader may not skip raises Version.
//
// A connection carries one conversation: the agent sends Hello, the shim answers HelloReply, the agent sends one
// request, the shim answers with TypeDone or TypeFault. Wait is answered when the process ends; the end of the connection before
// that is how the agent learns of the shim's death. Exec is answered at once and goes on with stream frames.
package shimproto

// Version is the newest protocol that this code speaks, MinVersion the oldest.
const (
	Version    = 1
	MinVersion = 1
)

// Type says what a frame carries.
type Type uint8

// Types of frames. They are part of the protocol: append only.
const (
	TypeHello      Type = 1 // Hello: the agent's first frame
	TypeHelloReply Type = 2
	TypeDone       Type = 3 // the request was carried out; the payload is the request's reply
	TypeFault      Type = 4 // Fault: it was not

	TypeLaunch Type = 10 // Launch → Launched
	TypeWait   Type = 11 // Named → Exit, when the process has ended
	TypeSignal Type = 12 // Signal → nothing
	TypeKill   Type = 13 // Kill → Exit, when no process is left
	TypeForget Type = 14 // Named → Forgotten
	TypeExec   Type = 15 // Exec → nothing, then streams
	TypeStats  Type = 16 // Named → Stats
	TypeList   Type = 17 // nothing → List
	TypeBye    Type = 18 // nothing → Forgotten: the shim exits if it holds nothing

	TypeStdin      Type = 30 // bytes for the command
	TypeStdinClose Type = 31
	TypeResize     Type = 32 // Resize
	TypeStdout     Type = 33
	TypeStderr     Type = 34
	TypeExit       Type = 35 // Exit: the last frame of an exec
)
