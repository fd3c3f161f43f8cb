package agent

import (
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// logTo says how the agent's log is written: for people on a terminal, else for programs. Its least level may change.
func (c *Config) logTo(w *os.File) (slog.Handler, *slog.LevelVar) {
	least := level(c.LogLevel)
	return handler(w, least, c.LogJSON), least
}

func handler(w *os.File, level slog.Leveler, json bool) slog.Handler {
	switch {
	case json:
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	case term.IsTerminal(int(w.Fd())):
		return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000"})
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
}
