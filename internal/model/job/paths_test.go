package job

import "testing"

// Given destinations of mounts and of templates, then those are found that no node could give to a task; a template's
// that its node puts together is not judged.
func TestPathsThatNoNodeCanGiveAreFound(t *testing.T) {
	for destination, wrong := range map[string]bool{
		"/": true, "": true, ".": true, "/proc": true, "/proc/1": true, "/data/../sys/fs": true, "sys": true,
		"/data": false, "data": false, "/process": false, "/data/proc": false,
	} {
		if Unmountable(destination) != wrong {
			t.Errorf("a mount at %q: %v, want %v", destination, !wrong, wrong)
		}
	}
	for destination, wrong := range map[string]bool{
		"/etc/app.conf": true, "local": true, "/secrets/": true, "/alloc": true, "../x": true, ".": true, "..": true,
		"local/../../x": true,
		"local/x":       false, "/local/x": false, "alloc/a/b": false, "/tmp/x": false, "x": false, "conf/x": false,
		"${NOMAD_TASK_DIR}/x": false, "/${meta.dir}/x": false, "..x": false,
	} {
		if (&Template{DestPath: destination}).Astray() != wrong {
			t.Errorf("a template at %q: %v, want %v", destination, !wrong, wrong)
		}
	}
}
