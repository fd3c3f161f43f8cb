package follow

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"berth/api"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// How much of a task's standard error is shown, and how long the node may take to say it.
const (
	shownLines  = 5
	shownBytes  = 4096
	stderrPause = 5 * time.Second
)

// Stderr shows the last lines that a task in trouble wrote to its standard error. That there are none, or that its node
// does not say, is no reason to say less of the rest.
func (f *Follower) Stderr(ctx context.Context, to *kit.Printer, t rollout.Trouble) {
	if t.Task == "" {
		return
	}
	lines := lastLines(ctx, f.Client, t.Alloc, t.Task)
	if len(lines) == 0 {
		return
	}
	to.Printf("The last lines of task %q of allocation %q on standard error:\n", kit.Clean(t.Task), f.id(t.Alloc.ID))
	for _, line := range lines {
		to.Printf("  | %s\n", kit.Clean(line))
	}
}

func lastLines(ctx context.Context, c *api.Client, a *api.AllocationListStub, task string) []string {
	ctx, cancel := context.WithTimeout(ctx, stderrPause)
	defer cancel()
	o := api.LogOptions{Task: task, Type: "stderr", Origin: api.OriginEnd, Offset: shownBytes}
	frames, err := c.Allocations().Logs(ctx, a.ID, o, &api.QueryOptions{Namespace: a.Namespace})
	if err != nil {
		return nil
	}
	defer frames.Close()
	var text strings.Builder
	for {
		frame, err := frames.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return nil
			}
			break
		}
		text.Write(frame.Data)
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	if text.Len() >= shownBytes {
		lines = lines[1:] // its beginning is cut off
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines[max(0, len(lines)-shownLines):]
}
