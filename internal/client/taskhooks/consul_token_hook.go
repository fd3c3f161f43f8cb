package taskhooks

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/hook"
	"berth/internal/model/job"
)

// TaskTokens are the tokens that tasks get of Consul for their identities; client/consultokens implements it.
type TaskTokens interface {
	HasTask(t *job.Task) bool
	Task(ctx context.Context, id ids.Alloc, task string) (redact.Secret, error)
	Return(ctx context.Context, token redact.Secret) error
}

// ConsulToken has a task find the token that Consul gives for its identity, in a file of its secrets directory and in
// its environment, for as long as it may start.
type ConsulToken struct {
	Tokens   TaskTokens
	Deadline time.Duration // 0: a minute
}

var (
	_ hook.Prestarter = (*ConsulToken)(nil)
	_ hook.Stopper    = (*ConsulToken)(nil)
)

// ConsulTokenFile is where a task finds its token of Consul, in its secrets directory.
const ConsulTokenFile = "consul_token"

// ConsulTokenIn is the token of Consul that a task has in its directory; empty: it has none.
func ConsulTokenIn(taskDir string) redact.Secret { return tokenIn(taskDir, ConsulTokenFile) }

// Name implements hook.Hook.
func (*ConsulToken) Name() string { return "consul_token" }

// Prestart puts the token in its places. One that is in the file stays, over restarts of the task and of the agent.
func (h *ConsulToken) Prestart(ctx context.Context, t *hook.Task) error {
	if !h.Tokens.HasTask(t.Task) {
		return nil
	}
	token := readToken(t, ConsulTokenFile)
	if token.Empty() {
		var err error
		token, err = getToken(ctx, t, h.Deadline, "its identity",
			func(ctx context.Context) (redact.Secret, error) {
				return h.Tokens.Task(ctx, t.Alloc.ID, t.Task.Name)
			})
		if err != nil {
			return err
		}
		if err := putToken(t, ConsulTokenFile, token); err != nil {
			return err
		}
	}
	for _, name := range []string{"CONSUL_TOKEN", "CONSUL_HTTP_TOKEN"} {
		t.Out.Env[name] = token.Reveal()
	}
	return nil
}

// Stop returns it.
func (h *ConsulToken) Stop(ctx context.Context, t *hook.Task) error {
	if !h.Tokens.HasTask(t.Task) {
		return nil
	}
	return returnToken(ctx, t, ConsulTokenFile, h.Tokens.Return)
}
