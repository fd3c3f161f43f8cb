package hook_test

import (
	"testing"

	"berth/internal/client/hook"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given a task whose files come from an image, then names of users are the image's, and nothing on the node is given to
// who has the same name here; numbers are the same everywhere.
func TestNamesOfAnImagesUsersAreNotTheNodes(t *testing.T) {
	for user, want := range map[string]string{"": "", "root": "", "1000": "1000", "1000:1000": "1000:1000",
		"postgres:1000": ""} {
		task := &job.Task{User: user}
		image := driver.Info{Capabilities: driver.Capabilities{FSIsolation: driver.IsolationImage}}
		if got := hook.OwnerOf(task, image); got != want {
			t.Errorf("%q in an image: %q, want %q", user, got, want)
		}
		chroot := driver.Info{Capabilities: driver.Capabilities{FSIsolation: driver.IsolationChroot}}
		if got := hook.OwnerOf(task, chroot); got != user {
			t.Errorf("%q of the node: %q", user, got)
		}
	}
}
