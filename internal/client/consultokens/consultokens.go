// Package consultokens owns how the node gets tokens of Consul for its services and tasks, and gives them back: the
// servers have them made, or Consul gives them for identities that the servers have signed. Package client composes it;
// the hooks of tasks and what registers services use it.
package consultokens

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/base/retry"
	"berth/internal/client/identities"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/port/consul"
)

// Servers have tokens made and identities signed.
type Servers interface {
	// ServiceToken is the token of a task of the mesh, made for its service.
	ServiceToken(ctx context.Context, id ids.Alloc, task, service string) (redact.Secret, error)
	// Sign signs identities of a task, by their names; SignService that of a service, by the names that the job gives
	// the task that it belongs to (empty: it is the group's), it and its port.
	Sign(ctx context.Context, id ids.Alloc, task string, names []string) ([]identities.Signed, error)
	SignService(ctx context.Context, id ids.Alloc, task, service, port string) (identities.Signed, error)
}

// Config wires a keeper.
type Config struct {
	Agent   *consul.Agent // spoken to by the node's own token
	Servers Servers
	// Lists: the node speaks to Consul by a token, so that tasks need some, too.
	Lists bool
	// ServiceMethod and TaskMethod are the auth methods to which identities of services and tasks are shown; empty:
	// there is none.
	ServiceMethod, TaskMethod string
	// Secrets is the directory of an alloc's task for what is secret, on the node.
	Secrets func(id ids.Alloc, task string) string
	Log     *slog.Logger
}

// Keeper gets tokens. Its methods may be called from every goroutine.
type Keeper struct {
	cfg Config

	mu   sync.Mutex
	held map[string]redact.Secret // tokens of services, by the ids that these have in Consul
}

// New returns a keeper.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg, held: map[string]redact.Secret{}} }

// Needed reports whether tasks of the mesh need tokens.
func (k *Keeper) Needed() bool { return k.cfg.Lists || k.cfg.ServiceMethod != "" }

// Mesh is the token by which a task acts as its service of the mesh, once the node's agent of Consul knows it: what
// Consul gives for the identity of the service, where it has one for that; and what the servers have made otherwise.
func (k *Keeper) Mesh(
	ctx context.Context, id ids.Alloc, task, owner string, of *job.Service,
) (redact.Secret, error) {
	if k.ByIdentity(of) {
		return k.ofService(ctx, id, owner, of)
	}
	token, err := k.cfg.Servers.ServiceToken(ctx, id, task, of.Name)
	if err != nil {
		return redact.Secret{}, err
	}
	return token, k.known(ctx, token)
}

// ByIdentity reports whether a service has an identity that it gets its token for, and not by the servers or the
// node: nothing else stands in for it.
func (k *Keeper) ByIdentity(of *job.Service) bool {
	return of.Identity != nil && k.cfg.ServiceMethod != ""
}

// ofService turns the identity of a service into a token of its own.
func (k *Keeper) ofService(ctx context.Context, id ids.Alloc, owner string, of *job.Service) (redact.Secret, error) {
	signed, err := k.cfg.Servers.SignService(ctx, id, owner, of.Name, of.PortLabel)
	if err != nil {
		return redact.Secret{}, err
	}
	return k.login(ctx, k.cfg.ServiceMethod, signed.Token, map[string]string{
		"allocation": string(id),
		"service":    of.Name,
	})
}

// Task is the token that a task gets for its identity for Consul.
func (k *Keeper) Task(ctx context.Context, id ids.Alloc, task string) (redact.Secret, error) {
	signed, err := k.cfg.Servers.Sign(ctx, id, task, []string{workload.ForConsul})
	if err != nil {
		return redact.Secret{}, err
	}
	return k.login(ctx, k.cfg.TaskMethod, signed[0].Token, map[string]string{
		"allocation": string(id),
		"task":       task,
	})
}

// HasTask reports whether a task gets a token for its identity.
func (k *Keeper) HasTask(t *job.Task) bool { return k.cfg.TaskMethod != "" && hasIdentity(t) }

func hasIdentity(t *job.Task) bool {
	return slices.ContainsFunc(t.Identities, func(i *job.WorkloadIdentity) bool { return i.Name == workload.ForConsul })
}

// AsTask is the node's agent of Consul as a task asks it: by the token that it got for its identity, where it has one,
// and by the node's own elsewhere. From the first to the second there is no way.
func (k *Keeper) AsTask(t *job.Task, token redact.Secret) (*consul.Agent, error) {
	switch {
	case !hasIdentity(t):
		return k.cfg.Agent, nil
	case k.cfg.TaskMethod == "":
		return nil, fault.WithHint(fault.New(fault.NotReady, "ask Consul", "by the identity of task "+t.Name,
			"its node turns no identity into a token"), "write task_identity in consul {} of the node's agent")
	case token.Empty():
		return nil, fault.WithHint(fault.New(fault.NotReady, "ask Consul", "by the identity of task "+t.Name,
			"its token is not in its file"), "restart the allocation: a task keeps secrets/consul_token as it is")
	}
	return k.cfg.Agent.As(token), nil
}

// login turns an identity into a token. One that ends by itself is given back: what is registered by it would be lost
// with it.
func (k *Keeper) login(
	ctx context.Context, method string, identity redact.Secret, meta map[string]string,
) (redact.Secret, error) {
	t, err := k.cfg.Agent.Login(ctx, method, identity, meta)
	if err != nil {
		return redact.Secret{}, err
	}
	if !t.Expires.IsZero() {
		return redact.Secret{}, errors.Join(fault.WithHint(
			fault.New(fault.Unsupported, "log in", "by the auth method "+method+" of Consul",
				"its tokens end before what they are for"),
			"leave MaxTokenTTL out of the auth method: a token is given back when what it is for has ended"),
			k.Return(ctx, t.Secret))
	}
	return t.Secret, k.known(ctx, t.Secret)
}

// Return gives a token back that Consul gave for an identity.
func (k *Keeper) Return(ctx context.Context, token redact.Secret) error {
	return k.cfg.Agent.As(token).Logout(ctx)
}

// Bounds of how long a token that was made a moment ago is waited for: servers of Consul hear of it one after another,
// and what asks by it too early is refused for a while.
const (
	knownWithin = 10 * time.Second
	knownPause  = 100 * time.Millisecond
)

// known waits until the server of Consul that the node's agent asks knows a token.
func (k *Keeper) known(ctx context.Context, token redact.Secret) error {
	wait, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	as := k.cfg.Agent.As(token)
	for {
		_, err := as.Whose(wait)
		if err == nil || !fault.Has(err, fault.Denied) {
			return err
		}
		if !retry.Sleep(wait, knownPause) {
			return fault.Wrap(err, fault.Unavailable, "wait", "until Consul knows a new token")
		}
	}
}
