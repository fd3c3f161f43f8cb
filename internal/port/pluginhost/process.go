package pluginhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/procs"
	"berth/internal/port/hostfs"
)

// What host and plugin say to each other before they speak gRPC: the handshake of go-plugin. The cookie keeps people
// from running a plugin by hand; the number is the version of what is spoken afterwards.
const (
	cookieName   = "NOMAD_PLUGIN_MAGIC_COOKIE"
	cookie       = "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
	coreProtocol = "1"
	protocol     = "2"
)

// CallLimit bounds calls of a plugin that have nothing to wait for.
const CallLimit = 30 * time.Second

// Bounds of a plugin's answers.
const (
	handshakeLimit = time.Minute // from the start of the process to its line
	maxLine        = 4 << 10     // of the line, bytes
	maxMessage     = 64 << 20    // bytes, both ways: plugins set no limit of their own
	goodbyeLimit   = 2 * time.Second
	maxOutput      = 10 << 20 // of what a plugin says on its standard error, before it is cut; bytes
	maxSocketPath  = 107
)

// record is what is written down of a plugin's process, so that the next run of the agent finds it.
type record struct {
	Name    string // as it calls itself
	Kind    Kind   `json:",omitempty"`
	Address string
	PID     int
	Start   uint64 // of the process, in clock ticks since boot
	Boot    string
	Program string `json:",omitempty"` // as stamp has it
}

// files of a plugin, in a directory of its own.
func (c Config) recordPath() string { return filepath.Join(c.Dir, "process.json") }
func (c Config) stdoutPath() string { return filepath.Join(c.Dir, "stdout") }
func (c Config) stderrPath() string { return filepath.Join(c.Dir, "stderr") }
func (c Config) socketDir() string  { return filepath.Join(c.Dir, "run") }

// recorded reads what the last run of the agent wrote down; nil: nothing that is of use.
func (c Config) recorded() *record {
	text, err := os.ReadFile(c.recordPath())
	if err != nil {
		return nil
	}
	var r record
	if json.Unmarshal(text, &r) != nil || r.Name == "" {
		return nil // another process is started; what the old one runs is found by that
	}
	return &r
}

// prepare makes the plugin's directories.
func (h *Host) prepare() error {
	// go-plugin adds the name of a file to the directory: "/plugin" and a number.
	if len(h.cfg.socketDir())+len("/plugin1234567890") > maxSocketPath {
		return fault.WithHint(fault.New(fault.Invalid, "start", h.Subject(),
			"the path "+strconv.Quote(h.cfg.socketDir())+" is too long for a socket"), "choose a shorter data_dir")
	}
	if err := h.clear(h.cfg.socketDir()); err != nil {
		return err
	}
	for _, dir := range []string{h.cfg.Dir, h.cfg.socketDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fault.Wrap(err, fault.Internal, "make", "directory "+strconv.Quote(dir))
		}
	}
	return nil
}

// check refuses a program that somebody other than root and the agent's user could have put there.
func (h *Host) check() error {
	st, err := os.Stat(h.cfg.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fault.WithHint(fault.New(fault.NotFound, "start", h.Subject(), "there is no file "+h.cfg.Path),
			"put the plugin there, or take its block out of the agent's configuration")
	case err != nil:
		return fault.Wrap(err, fault.Internal, "start", h.Subject())
	case st.IsDir() || st.Mode()&0o111 == 0:
		return fault.WithHint(fault.New(fault.Invalid, "start", h.Subject(), h.cfg.Path+" is no program"),
			"make it executable: chmod 755 "+h.cfg.Path)
	}
	// Where the path leads by links, and the path itself, whose links others could turn.
	real, err := filepath.EvalSymlinks(h.cfg.Path)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "start", h.Subject())
	}
	for _, path := range []string{real, h.cfg.Path} {
		for dir := false; ; path, dir = filepath.Dir(path), true {
			if err := h.trusted(path, dir); err != nil {
				return err
			}
			if path == filepath.Dir(path) {
				break
			}
		}
	}
	return nil
}

// trusted refuses a path at which somebody other than root and the agent's user can put something else. In a directory
// with the sticky bit, as /tmp is, others can only add what is theirs.
func (h *Host) trusted(path string, dir bool) error {
	st, err := os.Stat(path)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "start", h.Subject())
	}
	refuse := func(why, hint string) error {
		return fault.WithHint(fault.New(fault.Denied, "start", h.Subject(),
			path+" "+why+", and the plugin would run as the agent does"), hint)
	}
	if st.Mode()&0o022 != 0 && !(dir && st.Mode()&os.ModeSticky != 0) {
		return refuse("can be changed by others than its owner", "chmod go-w "+path)
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return refuse(fmt.Sprintf("belongs to user %d", s.Uid), "chown root "+path)
	}
	return nil
}

// launch starts the plugin and waits for its line. The process outlives the agent: its output goes to files, because a
// pipe's end would kill it.
func (h *Host) launch(ctx context.Context) (*record, error) {
	stdout, err := os.OpenFile(h.cfg.stdoutPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "start", h.Subject())
	}
	defer func() { _ = stdout.Close() }() // the plugin has its own
	stderr, err := os.OpenFile(h.cfg.stderrPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "start", h.Subject())
	}
	defer func() { _ = stderr.Close() }() // as above
	program := h.cfg.stamp()
	cmd := exec.Command(h.cfg.Path, h.cfg.Args...)
	cmd.Env = append(os.Environ(), cookieName+"="+cookie, "PLUGIN_PROTOCOL_VERSIONS="+protocol,
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000", "PLUGIN_UNIX_SOCKET_DIR="+h.cfg.socketDir(),
		"TMPDIR="+h.cfg.socketDir())
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "start", h.Subject())
	}
	ended := make(chan error, 1)
	h.group.Go("plugin "+h.cfg.Block, func() error {
		ended <- cmd.Wait()
		return nil
	})
	address, err := h.handshake(ctx, ended)
	if err != nil {
		return nil, errors.Join(err, h.endAll()) // it may have ended; it is of no use in any case
	}
	start, err := procs.StartTime(cmd.Process.Pid)
	boot, bootErr := hostfs.BootID()
	if err = errors.Join(err, bootErr); err != nil {
		return nil, fault.Note(errors.Join(err, h.endAll()), "start", h.Subject())
	}
	return &record{
		Address: address,
		PID:     cmd.Process.Pid,
		Start:   start,
		Boot:    boot,
		Program: program,
	}, nil
}

// handshake waits for the line in which the plugin says where it listens.
func (h *Host) handshake(ctx context.Context, ended <-chan error) (address string, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	watch := h.cfg.Dirs.Watch(h.cfg.Dir)
	defer watch.Close()
	refuse := func(text string) error { return fault.New(fault.Unavailable, "start", h.Subject(), text) }
	for {
		line, whole, err := h.line()
		if err != nil {
			return "", err
		}
		if whole {
			return parseLine(line, refuse)
		}
		select {
		case why := <-ended:
			if line, whole, err := h.line(); err == nil && whole {
				return parseLine(line, refuse)
			}
			return "", refuse(fmt.Sprintf("it ended before it said where it listens (%v); its last words: %s",
				ending(why), h.lastWords()))
		case <-ctx.Done():
			return "", refuse(fmt.Sprintf("it did not say within %s where it listens", handshakeLimit))
		case <-watch.Changed():
		}
	}
}

func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// lastWords is the end of what the plugin said on its standard error.
func (h *Host) lastWords() string {
	text, err := os.ReadFile(h.cfg.stderrPath())
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return "none"
	}
	const last = 500
	text = bytes.TrimSpace(text)
	return strconv.Quote(string(text[max(0, len(text)-last):]))
}

// line reads the plugin's first line.
func (h *Host) line() (line string, whole bool, err error) {
	text, err := os.ReadFile(h.cfg.stdoutPath())
	if err != nil {
		return "", false, fault.Wrap(err, fault.Internal, "read", h.cfg.stdoutPath())
	}
	line, _, whole = strings.Cut(string(text), "\n")
	if !whole && len(text) > maxLine {
		return "", false, fault.New(fault.Invalid, "start", h.Subject(), "it speaks another language: no line of "+
			"a handshake in the first "+strconv.Itoa(maxLine)+" bytes")
	}
	return line, whole, nil
}

// parseLine reads CORE|APP|NETWORK|ADDRESS|PROTOCOL[|…].
func parseLine(line string, refuse func(string) error) (address string, err error) {
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 {
		return "", refuse(fmt.Sprintf("its first line %q is no handshake of go-plugin", Clip(line)))
	}
	switch {
	case parts[0] != coreProtocol:
		return "", refuse(fmt.Sprintf("it speaks version %q of go-plugin's own protocol, not %s", parts[0],
			coreProtocol))
	case parts[1] != protocol:
		return "", refuse(fmt.Sprintf("it speaks version %q of the protocol, and Berth speaks %s: build the plugin "+
			"with a later one", parts[1], protocol))
	case parts[4] != "grpc":
		return "", refuse(fmt.Sprintf("it speaks %q, and Berth speaks grpc", parts[4]))
	case parts[2] == "unix" && filepath.IsAbs(parts[3]):
		return "unix:" + parts[3], nil
	case parts[2] == "tcp":
		return "passthrough:" + parts[3], nil
	}
	return "", refuse(fmt.Sprintf("it listens at %s %q", parts[2], Clip(parts[3])))
}

// lives reports whether the process of a record does, and is still that one.
func (r *record) lives() bool {
	boot, err := hostfs.BootID()
	if err != nil || boot != r.Boot || r.PID <= 0 {
		return false
	}
	start, err := procs.StartTime(r.PID)
	return err == nil && start == r.Start
}

// dial connects with a plugin and asks whether it serves.
func dial(ctx context.Context, address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "connect with", address)
	}
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	answer, err := serves(ctx, conn)
	if err == nil && answer != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fault.New(fault.Unavailable, "connect with", address, "it says that it does not serve")
	}
	if err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Unavailable, "connect with", address), conn.Close())
	}
	return conn, nil
}

// save writes down how the plugin is found again.
func (h *Host) save(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "record", h.Subject())
	}
	return durable.WriteFile(h.cfg.recordPath(), text, 0o600)
}

// end asks a plugin to end, and ends it.
func (h *Host) end(ctx context.Context, p *Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeLimit)
	defer cancel()
	_ = p.Conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{}) // it is killed anyway
	if err := errors.Join(p.Kill(), h.endAll()); err != nil {
		h.cfg.Log.Warn("a plugin could not be ended", h.key(), h.Name(), logkey.Error, err)
	}
	if err := os.Remove(h.cfg.recordPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		h.cfg.Log.Warn("the record of a plugin stays", h.key(), h.Name(), logkey.Error, err)
	}
}

// Kill ends a plugin's process, and nothing that it started, and returns when it is gone. Then another is started.
func (p *Process) Kill() error { return procs.Kill(p.rec.PID, p.rec.lives, endLimit) }

// Is reports whether a process is the plugin's own.
func (p *Process) Is(pid int) bool { return pid == p.rec.PID }

// ID names the process for as long as the machine exists.
func (p *Process) ID() string { return fmt.Sprintf("%s %d %d", p.rec.Boot, p.rec.PID, p.rec.Start) }

// EndProcess ends the process of an ID, if it lives, and returns when it is gone.
func EndProcess(id string) error {
	var r record
	if _, err := fmt.Sscanf(id, "%s %d %d", &r.Boot, &r.PID, &r.Start); err != nil {
		return fault.Wrap(err, fault.Internal, "read", fmt.Sprintf("which process %q is", id))
	}
	return procs.Kill(r.PID, r.lives, endLimit)
}
