package callers

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
)

// Guard calls what answers a request, and makes of its panic an error that names the route. Where it happened is for
// those who run the agent.
func Guard(log *slog.Logger, method, path string, answer func() (any, error)) (v any, err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // that is for the HTTP server
			panic(p)
		default:
			log.Error("a request panicked; this is a bug of Berth", "method", method, logkey.Path, path,
				"panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, "answer", method+" "+path, fmt.Sprintf("panic: %v", p))
		}
	}()
	return answer()
}
