package agent

import (
	"log/slog"
	"os"

	"berth/internal/agent/logs"
)

// logTo says how the agent's log is written. Its least level may change.
func (c *Config) logTo(w *os.File) (slog.Handler, *slog.LevelVar) {
	least := level(c.LogLevel)
	return logs.Handler(w, least, c.LogJSON), least
}
