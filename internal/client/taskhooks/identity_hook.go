package taskhooks

import (
	"context"
	"fmt"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/client/identities"
	"berth/internal/client/taskapi"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/port/users"
)

// Identity has a task find its signed identities, in files and in its environment, and act on those that are renewed.
type Identity struct{ Keeper *identities.Keeper }

var (
	_ hook.Prestarter = (*Identity)(nil)
	_ hook.Stopper    = (*Identity)(nil)
)

// Name implements hook.Hook.
func (*Identity) Name() string { return "identity" }

// Prestart has the identities signed that the task is to find. One that was found running has them.
func (h *Identity) Prestart(ctx context.Context, t *hook.Task) error {
	wanted := workload.Shown(t.Group, t.Task)
	if len(wanted) == 0 {
		return nil
	}
	holder := &identityHolder{task: t.Task, dir: t.TaskDir, control: t.Control}
	var err error
	if holder.file.uid, holder.file.gid, err = users.Owner(t.User); err != nil {
		return err
	}
	if t.Restored {
		return h.Keeper.Adopt(t.Alloc.ID, t.Task.Name, wanted, holder)
	}
	tokens, err := h.Keeper.Tokens(ctx, t.Alloc.ID, t.Task.Name, wanted, holder)
	if err != nil {
		return err
	}
	for _, id := range wanted {
		if err := holder.put(id, tokens[id.Name]); err != nil {
			return err
		}
		if id.Env {
			t.Out.Env[workload.Variable(id.Name)] = tokens[id.Name].Reveal()
		}
	}
	return nil
}

// Stop forgets them.
func (h *Identity) Stop(_ context.Context, t *hook.Task) error {
	wanted := workload.Shown(t.Group, t.Task)
	if len(wanted) == 0 {
		return nil
	}
	return h.Keeper.Drop(t.Alloc.ID, t.Task.Name, wanted)
}

// identityHolder is a task, as far as its identities go.
type identityHolder struct {
	task    *job.Task
	dir     string
	file    file // owner alone
	control hook.Control
}

// put writes an identity into the file that the task is to find it in, whole or not at all. In the secrets directory
// nobody but the task's user gets at it; elsewhere its mode keeps others out.
func (h *identityHolder) put(id *job.WorkloadIdentity, token redact.Secret) error {
	if !id.File {
		return nil
	}
	f := file{mode: 0o600, uid: h.file.uid, gid: h.file.gid}
	if strings.HasPrefix(workload.File(id), allocdir.Secrets+"/") {
		f.mode = 0o644 // another user whom the task becomes may read it, if the task lets him in
	}
	_, err := f.write(h.dir, workload.File(id), []byte(token.Reveal()))
	return fault.Note(err, "write", fmt.Sprintf("identity %q of task %q", id.Name, h.task.Name))
}

// Renewed implements identities.Holder.
func (h *identityHolder) Renewed(ctx context.Context, id *job.WorkloadIdentity, token redact.Secret) error {
	if err := h.put(id, token); err != nil {
		return err
	}
	why := fmt.Sprintf("Identity %q renewed", id.Name)
	switch id.ChangeMode {
	case changeNoop:
		return nil
	case changeSignal:
		return gone(h.control.Signal(ctx, id.ChangeSignal, why))
	}
	return gone(h.control.Restart(ctx, why))
}

// gone passes over a task that has no process at the moment: its next one finds the new identity.
func gone(err error) error {
	if fault.Has(err, fault.NotFound) || fault.Has(err, fault.Conflict) {
		return nil
	}
	return err
}

// Sockets opens and closes the ways of tasks to the API; client/taskapi implements it.
type Sockets interface {
	Open(dir string) (there bool, err error) // not there: the agent has no API for tasks
	Close(dir string) error
}

// TaskAPI gives a task a way to the API, where it may do what its identity gives: a unix socket in its secrets
// directory.
type TaskAPI struct{ Sockets Sockets }

var (
	_ hook.Prestarter = (*TaskAPI)(nil)
	_ hook.Stopper    = (*TaskAPI)(nil)
)

// Name implements hook.Hook.
func (*TaskAPI) Name() string { return "api" }

// unixAddress is the variable by which a task finds the API, as clients of it know it.
const unixAddress = "NOMAD_UNIX_ADDR"

// Prestart listens, also for a task that was found running, and says where.
func (h *TaskAPI) Prestart(_ context.Context, t *hook.Task) error {
	there, err := h.Sockets.Open(secretsOf(t))
	if there && err == nil {
		t.Out.Env[unixAddress] = "unix://" + t.Variables()["NOMAD_SECRETS_DIR"] + "/" + taskapi.Name
	}
	return err
}

// Stop takes the socket away.
func (h *TaskAPI) Stop(_ context.Context, t *hook.Task) error { return h.Sockets.Close(secretsOf(t)) }

func secretsOf(t *hook.Task) string { return t.TaskDir + "/" + allocdir.Secrets }
