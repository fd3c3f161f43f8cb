package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
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
	passage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "listen", "for git")
	}
	server := &http.Server{Handler: f.passage(), ReadHeaderTimeout: time.Minute}
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("passage", func() error {
		if err := server.Serve(passage); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go("git", func() error {
		defer func() { _ = server.Close() }() // it ends with the child otherwise
		tree = path.Join(work, "tree")
		return f.checkout(gctx, &repository{program: program, dir: tree, environment: f.gitSettings(passage.Addr())})
	})
	if err := g.Wait(); err != nil {
		return "", known(err)
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

// passage passes on what git asks to addresses that the guard lets be asked. Where there are proxies, git asks
// those.
func (f *fetching) passage() http.Handler {
	dial := f.Guard.dialer()
	forward := &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // to where it says
		Transport: &http.Transport{DialContext: dial.DialContext, DisableCompression: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, asked(err).Error(), http.StatusForbidden)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			forward.ServeHTTP(w, r)
			return
		}
		out, err := dial.DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, asked(err).Error(), http.StatusForbidden)
			return
		}
		f.tunnel(r.Context(), w, out)
	})
}

// tunnel passes bytes between git and whom it asks, until either ends.
func (f *fetching) tunnel(ctx context.Context, w http.ResponseWriter, out net.Conn) {
	defer func() { _ = out.Close() }() // whoever ended it knows
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // git is gone
	}
	defer func() { _ = in.Close() }() // the same
	if _, err := in.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		return
	}
	g, _ := lifecycle.NewGroup(ctx)
	g.Go("to", func() error {
		_, err := buffered.WriteTo(out)
		return errors.Join(err, out.Close())
	})
	g.Go("from", func() error {
		_, err := bufio.NewReader(out).WriteTo(in)
		return errors.Join(err, in.Close())
	})
	_ = g.Wait() // a connection that breaks is git's to tell
}

// gitSettings are the environment of git: what it would read of files, it reads of that alone.
func (f *fetching) gitSettings(by net.Addr) []string {
	settings := [][2]string{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.symlinks", "true"},
		{"protocol.allow", "never"},
		{"protocol.http.allow", "always"},
		{"protocol.https.allow", "always"},
		{"submodule.recurse", "false"},
		{"credential.helper", ""},
		{"transfer.bundleURI", "false"},
		{"gc.auto", "0"},
		{"pack.threads", "1"},
		{"http.sslVerify", strconv.FormatBool(!f.Insecure)},
	}
	if f.Bounds.Received > 0 {
		settings = append(settings, [2]string{"fetch.unpackLimit", "1"}) // so that one file has all of it
	}
	for _, name := range slices.Sorted(maps.Keys(f.Headers)) {
		settings = append(settings, [2]string{"http.extraHeader", name + ": " + f.Headers[name]})
	}
	env := []string{programs, "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_TEMPLATE_DIR=", "GIT_ATTR_NOSYSTEM=1", "GIT_LFS_SKIP_SMUDGE=1"}
	proxied := false
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if proxied = proxied || strings.HasSuffix(strings.ToLower(name), "_proxy") && value != ""; value != "" {
			env = append(env, pair)
		}
	}
	if !proxied {
		settings = append(settings, [2]string{"http.proxy", "http://" + by.String()})
	}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
}

// repository is a working tree that git makes.
type repository struct {
	program, dir string
	environment  []string
}

// call runs git in it and returns what it writes.
func (r *repository) call(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.program, args...)
	cmd.Dir, cmd.Env = r.dir, r.environment
	var out, said bytes.Buffer
	cmd.Stdout = &limited{to: &out, left: memory / 8}
	cmd.Stderr = &limited{to: &said, left: 64 << 10}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fault.New(fault.Unavailable, "", "git "+args[0], trimmed(said.Bytes())+": "+err.Error())
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
		if fields := bytes.Fields(line); len(fields) > 3 {
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
	if _, err = r.call(ctx, append(args, "--", f.Source.URL, ref)...); err == nil {
		return "FETCH_HEAD", nil
	}
	if !commitLike(ref) || ctx.Err() != nil {
		return "", err
	}
	args = append(args, "--", f.Source.URL, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
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
