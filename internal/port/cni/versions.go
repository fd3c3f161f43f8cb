package cni

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"berth/internal/base/pattern"
)

// lookLimit bounds how long a plugin may take to say what it is.
const lookLimit = 2 * time.Second

var release = pattern.Of(`(?i)plugin .*\bv?(\d+\.\d+\.\d+[-+.\w]*)`)

// Versions are the releases of the plugins that are installed, by the names of their programs. One that is called
// without a command says what it is, as those of the CNI project do; others are left out.
func (p Plugins) Versions(ctx context.Context) map[string]string {
	out := map[string]string{}
	for _, dir := range p.Path {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // no plugins are there
		}
		for _, e := range entries {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || out[e.Name()] != "" {
				continue
			}
			if v := versionOf(ctx, filepath.Join(dir, e.Name())); v != "" {
				out[e.Name()] = v
			}
		}
	}
	return out
}

func versionOf(ctx context.Context, program string) string {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = lookLimit
	said, _ := cmd.CombinedOutput() // one without a command may end with an error, and has said what it is
	if m := release().FindSubmatch(said); m != nil {
		return string(m[1])
	}
	return ""
}
