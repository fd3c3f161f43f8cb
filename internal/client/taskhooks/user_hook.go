package taskhooks

import (
	"context"
	"fmt"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
)

// User refuses a task that would run as a user whom the agent's configuration denies, before anything is given to that
// user. Storage plugins that serve the node are excepted (hook.ServesNode).
type User struct{}

var _ hook.Prestarter = (*User)(nil)

// Name implements hook.Hook.
func (*User) Name() string { return "user" }

// Prestart checks the user. A process that was found running keeps the one it has.
func (*User) Prestart(_ context.Context, t *hook.Task) error {
	if t.Restored || hook.ServesNode(t.Task, t.DriverInfo) {
		return nil
	}
	err := t.DriverInfo.Users.Check(t.User)
	if !fault.Has(err, fault.Denied) {
		return err
	}
	return fault.WithHint(
		fault.Note(err, "start", fmt.Sprintf("job %q, group %q, task %q", t.Job.ID, t.Group.Name, t.Task.Name)),
		`name another user in the task, or leave it out; who runs the agent allows it by denied_users, denied_host_uids `+
			`and denied_host_gids in its plugin `+strconv.Quote(t.DriverInfo.Name)+" block")
}
