package files

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/base/logkey"
)

// logger shows a slog.Logger to the libraries beneath. What they tell as information is detail to us, and what they
// warn of (an election at the start of a lone server) is information: only their errors keep their level, and
// only where they are this server's own.
type logger struct {
	to    *slog.Logger
	name  string
	args  []any
	quiet bool // errors are detail, too
}

// NewLogger shows a slog.Logger to the library.
func NewLogger(to *slog.Logger) hclog.Logger { return logger{to: to, name: "raft"} }

// NewTransportLogger shows a slog.Logger to what carries Raft between servers: each error of a connection is detail, as
// another connection follows.
func NewTransportLogger(to *slog.Logger) hclog.Logger {
	return logger{to: to, name: "raft", quiet: true}
}

// ofPeer reports whether a line is about another server: it comes again and again while that one does not answer, and
// the log says itself, once, that it does not.
func ofPeer(args []any) bool {
	for i := 0; i+1 < len(args); i += 2 {
		if k, ok := args[i].(string); ok && (k == "peer" || k == "target") {
			return true
		}
	}
	return false
}

// repeated are what the library warns of again and again while a server has no majority: package majority says that
// once, with those that are missing, and the log that a server does not answer.
var repeated = map[string]bool{
	"heartbeat timeout reached, starting election":               true,
	"Election timeout reached, restarting election":              true,
	"failed to contact":                                          true,
	"failed to contact quorum of nodes, stepping down":           true,
	"rejecting vote request since we have a leader":              true,
	"rejecting pre-vote request since we have a leader":          true,
	"rejecting vote request since our last term is greater":      true,
	"rejecting pre-vote request since our last term is greater":  true,
	"rejecting vote request since our last index is greater":     true,
	"rejecting pre-vote request since our last index is greater": true,
}

// compacted reports whether a line is about an entry that is no longer in the log: whoever needs it gets a snapshot, as
// every other server does after a restore.
func compacted(args []any) bool {
	return slices.ContainsFunc(args, func(a any) bool {
		err, ok := a.(error)
		return ok && errors.Is(err, raft.ErrLogNotFound)
	})
}

// full reports whether a line is about a full disk: the library comes back to it with each try, and the log says that
// itself, once.
func full(args []any) bool {
	return slices.ContainsFunc(args, func(a any) bool {
		err, ok := a.(error)
		return ok && IsFull(err)
	})
}

// Log tells at a level.
func (l logger) Log(level hclog.Level, msg string, args ...any) {
	all := append([]any{logkey.Library, l.name}, l.args...)
	for _, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			a = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		all = append(all, a)
	}
	switch {
	case level >= hclog.Error && !l.quiet && !ofPeer(args) && !compacted(args) && !full(args):
		l.to.Error(msg, all...)
	case level == hclog.Warn && !l.quiet && !repeated[msg]:
		l.to.Info(msg, all...)
	default:
		l.to.Debug(msg, all...)
	}
}

// The levels of hclog.
func (l logger) Trace(msg string, args ...any) {} // too fine for anybody
func (l logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// IsTrace and its likes let callers skip work.
func (l logger) IsTrace() bool { return false }
func (l logger) IsDebug() bool { return true }
func (l logger) IsInfo() bool  { return true }
func (l logger) IsWarn() bool  { return true }
func (l logger) IsError() bool { return true }

// ImpliedArgs returns what With added.
func (l logger) ImpliedArgs() []any { return l.args }

// With adds attributes.
func (l logger) With(args ...any) hclog.Logger {
	l.args = append(l.args[:len(l.args):len(l.args)], args...)
	return l
}

// Name is the component that lines name.
func (l logger) Name() string { return l.name }

// Named appends to the name.
func (l logger) Named(name string) hclog.Logger {
	l.name += "." + name
	return l
}

// ResetNamed replaces the name.
func (l logger) ResetNamed(name string) hclog.Logger {
	l.name = name
	return l
}

// SetLevel does nothing: the level is the handler's.
func (l logger) SetLevel(hclog.Level) {}

// GetLevel is the finest level that is written.
func (l logger) GetLevel() hclog.Level { return hclog.Debug }

// StandardLogger shows the logger to package log.
func (l logger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(o), "", 0)
}

// StandardWriter tells each line as information.
func (l logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

type lineWriter struct{ l logger }

// Write tells one line.
func (w lineWriter) Write(p []byte) (int, error) {
	w.l.Info(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
