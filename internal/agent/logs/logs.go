// Package logs owns the form of an agent's log: for people on a terminal, else for programs. Only package agent imports
// it.
package logs

import (
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// Handler writes what is of the level or above.
func Handler(w *os.File, level slog.Leveler, json bool) slog.Handler {
	switch {
	case json:
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	case term.IsTerminal(int(w.Fd())):
		return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000"})
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
}
