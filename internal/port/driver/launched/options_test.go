package launched_test

import (
	"testing"

	"berth/internal/port/driver/launched"
)

func TestWhereATaskBegins(t *testing.T) {
	for dir, want := range map[string]string{"": "/", "/local/": "/local", "/a/../b": "/b"} {
		if got := launched.WorkDir(map[string]any{"work_dir": dir}, "/"); got != want {
			t.Errorf("%q: %q", dir, got)
		}
	}
}
