package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"berth/internal/port/raftlog/files"
)

// TestAnEntryThatIsCompactedIsNoError: an entry that is asked for and no longer in the log is no fault of the disk,
// others that cannot be read are.
func TestAnEntryThatIsCompactedIsNoError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("get entry 97: %w", raft.ErrLogNotFound), "level=DEBUG"},
		{errors.New("input/output error"), "level=ERROR"},
	} {
		var out bytes.Buffer
		l := files.NewLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		l.Error("failed to get log", "index", 97, "error", c.err)
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%v is said as %s, and not as %s", c.err, out.String(), c.want)
		}
	}
}
