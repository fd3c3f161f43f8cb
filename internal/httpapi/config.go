package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"berth/internal/base/ids"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/callers"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/conns"
	"berth/internal/httpapi/gauges"
	"berth/internal/httpapi/nodeservers"
	"berth/internal/httpapi/nodestore"
	"berth/internal/wire"
)

// Self describes the agent that serves, for GET /v1/agent/self.
type Self interface {
	// Describe returns the agent's effective configuration (no secrets) and its statistics by group.
	Describe() (config map[string]any, stats map[string]map[string]string)
	// Gauges are those of its numbers that carry labels.
	Gauges(ctx context.Context) []gauges.Gauge
	// NodeID is the id of the node in this agent, or empty.
	NodeID() ids.Node
	// Health returns what is wrong with the halves that this agent runs; nil errors are healthy, absent halves missing.
	Health(ctx context.Context) map[string]error
}

// LogSource streams the agent's own log; the agent implements it.
type LogSource interface {
	// Follow calls each with every line at or above level until ctx ends.
	Follow(ctx context.Context, level slog.Level, json bool, each func(line []byte) error) error
}

// Config wires a server.
type Config struct {
	Servers wire.Conn // calls to the server half; it forwards the methods that nodes serve
	Region  string
	Self    Self
	Logs    LogSource
	Parser  Parser
	Bounds  conns.Bounds // of the connections; none without
	Log     *slog.Logger

	NodeStore nodestore.Source // nil: no node runs in the agent
	// NodeServers are those that the agent's node asks; nil: the agent has a server.
	NodeServers nodeservers.Source
	Audit       *audit.Log // nil: nothing is recorded
	// Issuer is whom identities of tasks name as who has signed them, an address of this API; empty: nobody.
	Issuer   string
	ListsOff bool // no request is judged by access control lists: there is nothing to write into them
}

// Entry is a way to the API: where it listens, and who may use it there.
type Entry struct {
	Listener net.Listener
	Guard    access.Guard
}

// route is one line of the table.
type route struct {
	method, path string
	// handle answers with a value that becomes JSON and the indexes of what was read; or
	handle calls.Handler
	// answer does, of what this agent knows; or
	answer func(*Server, *calls.Request) (any, error)
	// stream writes the reply itself.
	stream func(*Server, http.ResponseWriter, *calls.Request) error
	most   int64 // its body may have so many bytes; 0: maxBody
	// long is what who sends it a body that is not small needs in any case; nil: nothing.
	long callers.Asks
	// asks is what it needs beside what its calls to the servers need; nil: nothing.
	asks callers.Asks
	// records is what the audit log takes it for.
	records audit.Kind
}
