package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/artifact"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/sizes"
)

// programs is where git and what it starts lie.
const programs = "PATH=/usr/local/bin:/usr/bin:/bin"

// clone fetches a repository by the node's git, which reaches nobody but by the guard, and returns where the files of
// the commit lie. The repository itself goes: what is left is files.
func (f *fetching) clone(ctx context.Context) (tree string, err error) {
	program, err := findGit()
	if err != nil {
		return "", err
	}
	by, err := f.passage()
	if err != nil {
		return "", err
	}
	listens, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "listen", "for git")
	}
	server := &http.Server{Handler: by, ReadHeaderTimeout: time.Minute}
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("passage", func() error {
		if err := server.Serve(listens); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go("git", func() error {
		defer func() { _ = server.Close() }() // it ends with the child otherwise
		tree = path.Join(work, "tree")
		return f.checkout(gctx, &repository{
			program:     program,
			dir:         tree,
			address:     by.address(),
			shown:       artifact.Shown(f.Source.URL),
			environment: f.gitSettings(listens.Addr()),
		})
	})
	if err := g.Wait(); err != nil {
		return "", cmp.Or(by.refused(), known(err))
	}
	return tree, nil
}

// known is the fault in an error, without the name of what met it.
func known(err error) error {
	var one *fault.Error
	if errors.As(err, &one) {
		return one
	}
	return err
}

func findGit() (string, error) {
	for _, dir := range strings.Split(strings.TrimPrefix(programs, "PATH="), ":") {
		at := dir + "/git"
		if st, err := os.Stat(at); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return at, nil
		}
	}
	return "", fault.WithHint(fault.New(fault.Unsupported, "fetch by", "git", "the node has no program git"),
		"install git on the node; or name an archive of the revision")
}

// gitSettings are the environment of git: what it would read of files, it reads of that alone, and it asks nobody but
// the passage.
func (f *fetching) gitSettings(by net.Addr) []string {
	settings := [][2]string{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.symlinks", "true"},
		{"protocol.allow", "never"},
		{"protocol.http.allow", "always"},
		{"submodule.recurse", "false"},
		{"credential.helper", ""},
		{"transfer.bundleURI", "false"},
		{"gc.auto", "0"},
		{"pack.threads", "1"},
		{"fetch.unpackLimit", "1"}, // what came as one file stays one
		{"http.proxy", "http://" + by.String()},
		{"http.followRedirects", "false"},
	}
	env := []string{programs, "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_TEMPLATE_DIR=", "GIT_ATTR_NOSYSTEM=1", "GIT_LFS_SKIP_SMUDGE=1"}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasSuffix(strings.ToLower(name), "_proxy") && value != "" { // they are the passage's to ask
			env = append(env, pair)
		}
	}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
}

// repository is a working tree that git makes.
type repository struct {
	program, dir string
	address      string // of the one that it is fetched from, as git asks, and as people know it
	shown        string
	environment  []string
}

// call runs git in it and returns what it writes.
func (r *repository) call(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.program, args...)
	cmd.Dir, cmd.Env = r.dir, r.environment
	var out, said bytes.Buffer
	listed := &limited{to: &out, left: memory / 8}
	cmd.Stdout = listed
	cmd.Stderr = &limited{to: &said, left: 64 << 10}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		text := strings.ReplaceAll(trimmed(said.Bytes()), r.address, r.shown)
		return nil, fault.New(fault.Unavailable, "", "git "+args[0], text+": "+err.Error())
	}
	if listed.left == 0 {
		return nil, fault.New(fault.Invalid, "", "git "+args[0], "it lists more than "+sizes.Human(memory/8))
	}
	return out.Bytes(), nil
}

// checkout fetches the commit that is meant and lays its files out, if they are within the bounds.
func (f *fetching) checkout(ctx context.Context, r *repository) error {
	if err := f.root.Mkdir(r.dir, 0o755); err != nil {
		return fault.Wrap(err, fault.Internal, "make", "the directory of the fetch")
	}
	if _, err := r.call(ctx, "init", "--quiet"); err != nil {
		return err
	}
	commit, err := f.receive(ctx, r)
	if err != nil {
		return err
	}
	listed, err := r.call(ctx, "ls-tree", "-r", "-t", "-l", "-z", commit)
	if err != nil {
		return err
	}
	for line := range bytes.SplitSeq(listed, []byte{0}) {
		if len(line) == 0 {
			continue
		}
		size := int64(0)
		said, name, _ := bytes.Cut(line, []byte("\t"))
		if bytes.Count(name, []byte("/")) >= deepest {
			return tooDeep(string(name))
		}
		if fields := bytes.Fields(said); len(fields) > 3 {
			size, _ = strconv.ParseInt(string(fields[3]), 10, 64) // "-": a directory
		}
		if err := errors.Join(f.unpacked.entry(), f.unpacked.take(size)); err != nil {
			return err
		}
	}
	if _, err := r.call(ctx, "checkout", "--quiet", "--detach", commit); err != nil {
		return fault.Wrap(err, fault.Invalid, "", "")
	}
	return fault.Wrap(f.root.RemoveAll(path.Join(r.dir, ".git")), fault.Internal, "remove", "the repository")
}

// receive fetches what is meant, by its name where the server gives it so, and otherwise among everything.
func (f *fetching) receive(ctx context.Context, r *repository) (commit string, err error) {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules"}
	if f.Source.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(f.Source.Depth))
	}
	ref := f.Source.Ref
	if ref == "" {
		ref = "HEAD"
	}
	if _, err = r.call(ctx, append(args, "--", r.address, ref)...); err == nil {
		return "FETCH_HEAD", nil
	}
	if !commitLike(ref) || ctx.Err() != nil {
		return "", err
	}
	args = append(args, "--", r.address, "+refs/heads/*:refs/berth/heads/*",
		"+refs/tags/*:refs/berth/tags/*") // beside the branch that a new repository has checked out
	if _, err := r.call(ctx, args...); err != nil {
		return "", err
	}
	out, err := r.call(ctx, "rev-parse", "--verify", "--end-of-options", ref+"^{commit}")
	return string(bytes.TrimSpace(out)), err
}

// commitLike reports whether a text may be a commit's number, or the beginning of one.
func commitLike(ref string) bool {
	return len(ref) >= 7 && strings.Trim(strings.ToLower(ref), "0123456789abcdef") == ""
}
