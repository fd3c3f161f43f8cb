// Package logkey owns the attribute names of log lines, so that one search finds all that happened to an object.
package logkey

// Attribute names for log/slog.
const (
	Alloc      = "alloc"
	Attempt    = "attempt"
	Component  = "component"
	Driver     = "driver"
	Error      = "error"
	Eval       = "eval"
	Generation = "generation"
	Index      = "index"
	Job        = "job"
	Library    = "library"
	Loop       = "loop"
	Namespace  = "namespace"
	NextTry    = "next_try"
	Node       = "node"
	Op         = "op"
	Path       = "path"
	PID        = "pid"
	Plugin     = "plugin"
	Role       = "role"
	RPC        = "rpc"
	Task       = "task"
	Took       = "took"
	Volume     = "volume"
)
