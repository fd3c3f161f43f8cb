package taskhooks

import (
	"context"
	"path"

	"berth/internal/base/fault"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/model/job"
	"berth/internal/port/users"
)

// Payload has a task find what its job was dispatched with, in a file of its local directory. Without one the file is
// empty: the task need not ask whether there is any.
type Payload struct{}

var _ hook.Prestarter = Payload{}

// Name implements hook.Hook.
func (Payload) Name() string { return "payload" }

// Prestart writes the file, whole or not at all, beneath the task's directory whatever links lie there. A task that was
// found running has it, and may have made something else of it.
func (Payload) Prestart(_ context.Context, t *hook.Task) error {
	p := t.Task.DispatchPayload
	if p == nil || t.Restored {
		return nil
	}
	if len(t.Job.Payload) > job.MaxPayload {
		return fault.New(fault.Invalid, "write", "the payload", "it is larger than any job is dispatched with")
	}
	uid, gid, err := users.Owner(t.User)
	if err != nil {
		return err
	}
	f := file{mode: 0o644, uid: uid, gid: gid}
	_, err = f.write(t.TaskDir, path.Join(allocdir.Local, p.File), t.Job.Payload)
	return fault.Note(err, "write", "the payload to "+path.Join(allocdir.Local, p.File))
}
