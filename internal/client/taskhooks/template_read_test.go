package taskhooks_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/client/taskhooks"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given a template that reads files, then those are of the task's directories; what leads out of them, or is not there,
// is refused with the way out.
func TestATemplateReadsFilesOfItsTask(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"local/in":         "7 of it",
		"local/large":      "",
		"local/link":       "",
		"local/../../out":  "",
		outside:            "",
		"local/not there":  "",
		"../../etc/passwd": "",
	} {
		x := withTemplates(t, driver.IsolationChroot, &job.Template{
			EmbeddedTmpl: `{{ $n := file "` + path + `" | trimSpace }}{{ printf "%.9s" $n }} of it`,
			DestPath:     "local/out",
		})
		if err := os.WriteFile(filepath.Join(x.TaskDir, "local/in"), []byte("7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(x.TaskDir, "local/link")); err != nil {
			t.Fatal(err)
		}
		large, err := os.Create(filepath.Join(x.TaskDir, "local/large"))
		if err := errors.Join(err, large.Truncate(render.MaxOutput), large.Close()); err != nil {
			t.Fatal(err)
		}
		h := &taskhooks.Templates{Renderer: here{}}
		err = h.Prestart(t.Context(), x.Task)
		switch {
		case want != "" && (err != nil || x.read(t, "local/out") != want):
			t.Errorf("%s: %v", path, err)
		case want == "" && (!fault.Has(err, fault.Invalid) || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%s: %v", path, err)
		}
	}
}
