package compat

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

const chatty = `
job "chatty" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "head -c 2500000 /dev/zero | tr '\\0' x; echo; echo the end; while true; do sleep 0.1; done"]
      }
      logs {
        max_files     = 5
        max_file_size = 1
      }
      resources {
        cpu    = 50
        memory = 32
      }
      kill_timeout = "1s"
    }
  }
}`

// logsFromTheEnd follows logs as the command line does when it is asked to follow and for nothing else: what is there
// comes first, from the oldest of the rotated files on.
func logsFromTheEnd(a *agent) {
	alloc := run(a, chatty)
	want := strings.Repeat("x", 2500000) + "\nthe end\n"
	a.eventually("everything is written", func() error {
		if got := logged(a, alloc, "stdout"); got != want {
			return fmt.Errorf("%d bytes", len(got))
		}
		return nil
	})
	for _, c := range []struct {
		offset int64
		want   string
		files  int
	}{{0, want, 3}, {8, "the end\n", 1}} {
		got, files := fromTheEnd(a, alloc, c.offset, len(c.want))
		if got != c.want || len(files) != c.files {
			a.t.Errorf("from %d before the end came %d bytes of %v, wanted %d of %d files", c.offset, len(got), files,
				len(c.want), c.files)
		}
	}
	_, _, err := a.Jobs().Deregister("chatty", true, nil)
	a.ok(err)
}

// fromTheEnd follows a log from its end until it gave as many bytes as wanted, and names the files that they came from.
func fromTheEnd(a *agent, alloc *api.Allocation, offset int64, bytes int) (string, map[string]bool) {
	a.t.Helper()
	cancel := make(chan struct{})
	defer close(cancel)
	frames, errs := a.AllocFS().Logs(alloc, true, "t", "stdout", api.OriginEnd, offset, cancel, nil)
	files := map[string]bool{}
	var text strings.Builder
	for text.Len() < bytes {
		select {
		case f := <-frames:
			if len(f.Data) > 0 {
				files[f.File] = true
			}
			text.Write(f.Data)
		case err := <-errs:
			a.t.Fatal(err)
		case <-time.After(patience):
			a.t.Fatalf("the log gave %d bytes, then nothing", text.Len())
		}
	}
	return text.String(), files
}
