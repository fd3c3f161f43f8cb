package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/internal/testkit/programs"
)

// said is what a program prints; it must succeed.
func said(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// commandsOf lists the commands of the program as a shell is offered them: "job run".
func commandsOf(t *testing.T, above string) (out []string) {
	t.Helper()
	words := append([]string{"__complete"}, strings.Fields(above)...)
	for line := range strings.Lines(said(t, binary, append(words, "")...)) {
		name := strings.TrimSpace(above + " " + strings.TrimSpace(line))
		out = append(append(out, name), commandsOf(t, name)...)
	}
	return out
}

// TestThePackageOfDebian: given the program, when its Debian package is built, then that has the program, the unit, the
// sample configuration as a file of the administrator's, completions, the pages of docs, and a man page of every
// command that man takes without a warning; it installs beneath a directory, starts nothing, and leaves a changed
// configuration and all state.
func TestThePackageOfDebian(t *testing.T) {
	programs.Need(t, "dpkg man-db", "dpkg-deb", "man")
	dir := t.TempDir()
	t.Setenv("DPKG_DEB_COMPRESSOR_TYPE", "none") // it is not kept
	said(t, "../scripts/deb.sh", binary, dir)
	built, err := filepath.Glob(filepath.Join(dir, "berth_*.deb"))
	if err != nil || len(built) != 1 {
		t.Fatalf("built: %v, %v", built, err)
	}
	root := filepath.Join(dir, "root")
	for _, d := range []string{"info", "updates", "triggers"} {
		must(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", d), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	dpkg := func(args ...string) {
		t.Helper()
		said(t, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-depends", "--log=" +
			filepath.Join(dir, "log")}, args...)...)
	}
	dpkg("--install", built[0])
	for path, want := range map[string]string{
		"etc/berth.d/berth.hcl":                          "../examples/agent.hcl",
		"usr/lib/systemd/system/berth.service":           "../packaging/berth.service",
		"usr/bin/berth":                                  binary,
		"usr/share/doc/berth/copyright":                  "../LICENSE",
		"usr/share/bash-completion/completions/berth":    "",
		"usr/share/zsh/vendor-completions/_berth":        "",
		"usr/share/fish/vendor_completions.d/berth.fish": "",
	} {
		have, err := os.ReadFile(filepath.Join(root, path))
		must(t, err)
		if want == "" {
			shell := map[byte]string{'b': "bash", 'z': "zsh", 'f': "fish"}[path[len("usr/share/")]]
			if string(have) != said(t, binary, "completion", shell) {
				t.Errorf("%s is not what berth completion %s writes", path, shell)
			}
			continue
		}
		if wanted, err := os.ReadFile(want); err != nil || !bytes.Equal(have, wanted) {
			t.Errorf("%s is not %s: %v", path, want, err)
		}
	}
	hasEveryPage(t, root)
	hasTheDocumentation(t, root)
	hasAUnit(t, root)
	config := filepath.Join(root, "etc/berth.d/berth.hcl")
	must(t, os.WriteFile(config, []byte("# mine\n"), 0o644))
	state := filepath.Join(root, "var/lib/berth/volumes")
	must(t, os.MkdirAll(state, 0o700))
	dpkg("--force-confold", "--install", built[0])
	if mine, err := os.ReadFile(config); err != nil || string(mine) != "# mine\n" {
		t.Errorf("after an upgrade the configuration is %q, %v", mine, err)
	}
	dpkg("--remove", "berth")
	if _, err := os.Stat(config); err != nil {
		t.Errorf("removing has taken the configuration: %v", err)
	}
	dpkg("--purge", "berth")
	if _, err := os.Stat(config); !os.IsNotExist(err) {
		t.Errorf("purging has left the configuration: %v", err)
	}
	if _, err := os.Stat(state); err != nil {
		t.Errorf("purging has taken the state: %v", err)
	}
}

// hasEveryPage finds the man page of each command, and has man read it.
func hasEveryPage(t *testing.T, root string) {
	t.Helper()
	want := []string{"berth.1.gz"}
	for _, c := range commandsOf(t, "") {
		want = append(want, "berth-"+strings.ReplaceAll(c, " ", "-")+".1.gz")
	}
	slices.Sort(want)
	pages, err := filepath.Glob(filepath.Join(root, "usr/share/man/man1/*"))
	must(t, err)
	var have []string
	for _, p := range pages {
		have = append(have, filepath.Base(p))
		cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", p)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err != nil || stderr.Len() > 0 || !bytes.Contains(out, []byte("SYNOPSIS")) {
			t.Errorf("%s: %v %s", filepath.Base(p), err, stderr.String())
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("the man pages are %q, want %q", have, want)
	}
	page := said(t, "man", "-l", filepath.Join(root, "usr/share/man/man1/berth-volume-create.1.gz"))
	for _, part := range []string{"-wait <duration>", "berth volume create volume.hcl"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page of volume create does not have %q:\n%s", part, page)
		}
	}
}

// hasTheDocumentation finds each page and each example, all that one page of them links to, and the directory in which
// the pages put files, which is root's alone.
func hasTheDocumentation(t *testing.T, root string) {
	t.Helper()
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, dir := range []string{"docs", "examples"} {
		must(t, filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			there := filepath.Join(root, "usr/share/doc/berth", strings.TrimPrefix(path, "../"))
			want, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if have, err := os.ReadFile(there); err != nil || !bytes.Equal(have, want) {
				t.Errorf("%s is not in the package: %v", path, err)
			}
			for _, to := range link.FindAllSubmatch(want, -1) {
				target := filepath.Join(filepath.Dir(path), string(to[1]))
				if !strings.HasPrefix(target, "../docs/") && !strings.HasPrefix(target, "../examples/") {
					continue
				}
				if _, err := os.Stat(filepath.Join(filepath.Dir(there), string(to[1]))); err != nil {
					t.Errorf("%s links to what the package does not have: %v", path, err)
				}
			}
			return nil
		}))
	}
	info, err := os.Stat(filepath.Join(root, "etc/berth"))
	must(t, err)
	if info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("/etc/berth is %s", info.Mode())
	}
}

// hasAUnit finds in the unit what tasks outlive an agent by, and has systemd read it.
func hasAUnit(t *testing.T, root string) {
	t.Helper()
	unit := filepath.Join(root, "usr/lib/systemd/system/berth.service")
	text, err := os.ReadFile(unit)
	must(t, err)
	lines := strings.Split(string(text), "\n")
	for _, line := range []string{"KillMode=process", "Delegate=yes", "ExecReload=/bin/kill -HUP $MAINPID",
		"ExecStart=/usr/bin/berth agent -config /etc/berth.d"} {
		if !slices.Contains(lines, line) {
			t.Errorf("the unit has no line %q", line)
		}
	}
	for _, setting := range []string{"Private", "Protect", "MountFlags", "ReadOnly"} {
		if strings.Contains(string(text), "\n"+setting) {
			t.Errorf("by %s… the agent gets mounts of its own, which are not the machine's", setting)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		return // the text was checked
	}
	// The program that it names is not on this machine.
	here := filepath.Join(t.TempDir(), "berth.service")
	must(t, os.WriteFile(here, bytes.ReplaceAll(text, []byte("/usr/bin/berth"), []byte(binary)), 0o644))
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", here).CombinedOutput(); err != nil ||
		bytes.Contains(out, []byte("berth.service")) {
		t.Errorf("systemd says %v: %s", err, out)
	}
}
