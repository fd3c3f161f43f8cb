// Package agentlog owns what a request for the log of an agent may ask for. Only package httpapi imports it.
package agentlog

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/httpapi/frames"
	"berth/internal/wire"
)

var levels = map[string]slog.Level{"": slog.LevelInfo, "trace": slog.LevelDebug - 4, "debug": slog.LevelDebug,
	"info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// Level is what a request calls a level; false: there is none of that name.
func Level(name string) (slog.Level, bool) {
	l, ok := levels[name]
	return l, ok
}

// OfServer refuses the name of another server than that of an agent whose status this is: its log is not here. Empty
// names none.
func OfServer(name string, st *wire.SystemStatusReply) error {
	if name == "" || slices.ContainsFunc(st.Members[:min(len(st.Members), 1)],
		func(m wire.Member) bool { return m.Name == name }) {
		return nil
	}
	return fault.WithHint(fault.New(fault.NotFound, "read", "the log of server "+strconv.Quote(name),
		"it is not the server of this agent"),
		"ask the agent of that server with -address, or the node beside it with -node-id")
}

// Stream answers with the lines that follow hands on, until the client goes or the agent stops.
func Stream(w http.ResponseWriter, plain bool, follow func(each func(line []byte) error) error) error {
	f := frames.NewWriter(w, plain)
	f.Begin()
	if err := http.NewResponseController(w).Flush(); err != nil {
		return nil // the client is gone
	}
	return f.Cut(follow(func(line []byte) error { return f.Write(&api.StreamFrame{Data: line}) }))
}
