package taskhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/base/retry"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/users"
)

// MeshTokens are the tokens by which tasks act in Consul as their services; client/consultokens implements it.
type MeshTokens interface {
	// Needed reports whether Consul asks for some.
	Needed() bool
	// Mesh is the token of a task for a service, which belongs to the task that is named, or to the group.
	Mesh(ctx context.Context, id ids.Alloc, task, owner string, of *job.Service) (redact.Secret, error)
	// ByIdentity reports whether the token is given for an identity, and is to be returned.
	ByIdentity(of *job.Service) bool
	Return(ctx context.Context, token redact.Secret) error
}

// MeshToken has a task of the mesh find the token of its service in a file of its secrets directory, before what begins
// its proxy. It waits no longer than its deadline, whatever Consul does.
type MeshToken struct {
	Tokens   MeshTokens
	Deadline time.Duration // 0: a minute
}

var (
	_ hook.Prestarter = (*MeshToken)(nil)
	_ hook.Stopper    = (*MeshToken)(nil)
)

// MeshTokenFile is where a task of the mesh finds its token, in its secrets directory.
const MeshTokenFile = "si_token"

const tokenDeadline = time.Minute

var tokenPauses = retry.Backoff{Min: 500 * time.Millisecond, Max: 5 * time.Second}

// Name implements hook.Hook.
func (*MeshToken) Name() string { return "consul_si_token" }

// Prestart puts the token in its place. One that is there stays: the task has it over restarts of its own and of the
// agent.
func (h *MeshToken) Prestart(ctx context.Context, t *hook.Task) error {
	if !t.Task.Kind.InMesh() || !h.Tokens.Needed() || !readToken(t, MeshTokenFile).Empty() {
		return nil
	}
	of := t.Group.ServiceOf(t.Task)
	if of == nil {
		return fault.New(fault.Invalid, "get a token for", "task "+t.Task.Name,
			fmt.Sprintf("its group has no service of the mesh %q", t.Task.Kind.Service()))
	}
	owner := ""
	for task, s := range t.Group.AllServices() {
		if s == of && task != nil {
			owner = task.Name
		}
	}
	token, err := getToken(ctx, t, h.Deadline, fmt.Sprintf("service %q", of.Name),
		func(ctx context.Context) (redact.Secret, error) {
			return h.Tokens.Mesh(ctx, t.Alloc.ID, t.Task.Name, owner, of)
		})
	if err != nil {
		return err
	}
	return putToken(t, MeshTokenFile, token)
}

// Stop returns what was given for an identity; what the servers have made they revoke.
func (h *MeshToken) Stop(ctx context.Context, t *hook.Task) error {
	if !t.Task.Kind.InMesh() {
		return nil
	}
	if of := t.Group.ServiceOf(t.Task); of == nil || !h.Tokens.ByIdentity(of) {
		return nil
	}
	return returnToken(ctx, t, MeshTokenFile, h.Tokens.Return)
}

// getToken asks until there is a token, the deadline is over or asking is of no use.
func getToken(
	ctx context.Context, t *hook.Task, deadline time.Duration, whose string,
	ask func(context.Context) (redact.Secret, error),
) (redact.Secret, error) {
	deadline = cmp.Or(deadline, tokenDeadline)
	wait, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for failures := 1; ; failures++ {
		token, err := ask(wait)
		switch {
		case err == nil:
			return token, nil
		case ctx.Err() != nil:
			return redact.Secret{}, ctx.Err()
		case unalterable(err):
			return redact.Secret{}, noToken(whose, "", err)
		}
		if failures == 1 {
			text := fmt.Sprintf("Waits for the token of Consul for %s: %v", whose, err)
			t.Emit(&alloc.TaskEvent{Type: alloc.EventConsulToken, DisplayMessage: text, Message: text})
		}
		if !tokenPauses.Sleep(wait, failures) {
			if ctx.Err() != nil {
				return redact.Secret{}, ctx.Err()
			}
			return redact.Secret{}, noToken(whose, fmt.Sprintf(" within %s", deadline), err)
		}
	}
}

// noToken ends the task: another start would wait for the same.
func noToken(whose, within string, err error) error {
	kind := fault.KindOf(err)
	if !unalterable(err) {
		kind = fault.Timeout // it is not what the task waits for that is not ready: the time for that is over
	}
	return &hook.Failure{
		Event: alloc.EventConsulToken,
		Final: true,
		Err: &fault.Error{
			Kind:    kind,
			Op:      "get",
			Subject: "the token of Consul for " + whose + within,
			Err:     err,
		},
	}
}

func unalterable(err error) bool {
	switch fault.KindOf(err) {
	case fault.Denied, fault.Invalid, fault.Unsupported, fault.Conflict:
		return true
	}
	return false
}

// putToken writes a token into a file of the task's secrets directory that nobody but its user reads.
func putToken(t *hook.Task, name string, token redact.Secret) error {
	f := file{mode: 0o600}
	var err error
	if f.uid, f.gid, err = users.Owner(t.User); err != nil {
		return err
	}
	_, err = f.write(t.TaskDir, allocdir.Secrets+"/"+name, []byte(token.Reveal()))
	return fault.Note(err, "write", "a token of Consul of task "+t.Task.Name)
}

// mostToken bounds what is read as a token.
const mostToken = 1 << 10

// readToken is the token in a file of the task's secrets directory; empty: there is none, or the task has laid
// something else there.
func readToken(t *hook.Task, name string) redact.Secret { return tokenIn(t.TaskDir, name) }

func tokenIn(taskDir, name string) redact.Secret {
	root, err := os.OpenRoot(taskDir)
	if err != nil {
		return redact.Secret{}
	}
	defer func() { _ = root.Close() }() // opened for paths only
	f, err := root.OpenFile(allocdir.Secrets+"/"+name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return redact.Secret{}
	}
	defer func() { _ = f.Close() }() // opened for reading
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > mostToken {
		return redact.Secret{}
	}
	text, err := io.ReadAll(io.LimitReader(f, mostToken))
	if err != nil && !errors.Is(err, io.EOF) {
		return redact.Secret{}
	}
	return redact.New(strings.TrimSpace(string(text)))
}

// returnToken gives back what a file has, and takes the file away.
func returnToken(
	ctx context.Context, t *hook.Task, name string, give func(context.Context, redact.Secret) error,
) error {
	token := readToken(t, name)
	if token.Empty() {
		return nil
	}
	if err := give(ctx, token); err != nil {
		return fault.Note(err, "return", "a token of Consul of task "+t.Task.Name)
	}
	root, err := os.OpenRoot(t.TaskDir)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", t.TaskDir)
	}
	defer func() { _ = root.Close() }() // opened for paths only
	return fault.Wrap(root.Remove(allocdir.Secrets+"/"+name), fault.Internal, "remove", name)
}
