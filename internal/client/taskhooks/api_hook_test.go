package taskhooks_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/client/hook"
	"berth/internal/client/taskapi"
	"berth/internal/client/taskhooks"
)

// Given a task, then it finds where it reaches the API in its environment, by the path that it sees; where the agent
// has none for tasks it finds nothing.
func TestATaskFindsTheAPI(t *testing.T) {
	serve := func(ctx context.Context, _ net.Listener) error {
		<-ctx.Done()
		return nil
	}
	for want, s := range map[string]taskapi.Serve{"unix:///secrets/api.sock": serve, "": nil} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
			t.Fatal(err)
		}
		x := &hook.Task{
			TaskDir:   dir,
			Variables: func() map[string]string { return map[string]string{"NOMAD_SECRETS_DIR": "/secrets"} },
			Out:       hook.Output{Env: map[string]string{}},
		}
		h := &taskhooks.TaskAPI{Sockets: taskapi.New(s, slog.New(slog.DiscardHandler))}
		if err := h.Prestart(t.Context(), x); err != nil || x.Out.Env["NOMAD_UNIX_ADDR"] != want {
			t.Errorf("it finds %q, want %q: %v", x.Out.Env["NOMAD_UNIX_ADDR"], want, err)
		}
		if err := h.Stop(t.Context(), x); err != nil {
			t.Error(err)
		}
	}
}
