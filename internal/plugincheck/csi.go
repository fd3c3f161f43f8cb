package plugincheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/pluginreport"
	"berth/internal/base/redact"
	"berth/internal/base/retry"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// CSI tests a storage plugin: first what any caller may expect, then the way of a volume as an agent makes it, with
// answers that are lost, calls that are broken off, kills in their midst, and mounts that are gone.
func CSI(ctx context.Context, asked pluginreport.Asked, log *slog.Logger) (*pluginreport.Report, error) {
	path, err := exec.LookPath(asked.Command[0])
	if err != nil {
		return nil, fault.WithHint(fault.New(fault.NotFound, "test", "plugin "+asked.Command[0],
			"there is no such program"), "name the plugin by its path")
	}
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		return nil, err
	}
	s := &storage{
		asked: asked,
		dir:   dir,
		path:  path,
		log:   log,
		run:   ids.New()[:8],
	}
	s.group, _ = lifecycle.NewGroup(context.WithoutCancel(ctx))
	r := &pluginreport.Report{Kind: "csi"}
	judgeWithin(ctx, r, asked.Volume.Limit, []check{
		{"it listens at CSI_ENDPOINT, and says who it is and what it can do", s.starts},
		{"a call that lacks what it needs is refused as such", s.refuses},
		{"what it does not know is gone, or not found, as the call demands", s.unknown},
		{"a volume is created, by the answer that it deserves", s.creates},
		{"a creation whose answer was lost makes no second volume", s.createsOnce},
		{"a volume is listed, and its use confirmed", s.lists},
		{"a volume is mounted where it is asked for, and keeps what is written", s.keeps},
		{"a volume that is asked for read-only cannot be written", s.readOnly},
		{"every call can be repeated when its answer was lost", s.repeats},
		{"equal calls at once end as one, or are told to wait", s.storms},
		{"a call that is broken off ends as it was asked for when it is repeated", s.brokenOff},
		{"killed in the midst of calls it goes on where it was", s.killed},
		{"what an earlier process mounted is unmounted by the next", s.forgetsNothing},
		{"what somebody else unmounted is mounted again", s.mountsAgain},
		{"a snapshot is one, and a volume made of it has what was in it", s.snapshots},
		{"a volume grows, once", s.grows},
		{"a volume is deleted, and stays so", s.deletes},
		{"nothing of it is left on the node", s.leavesNothing},
	})
	r.Name, r.Version = s.inst.Name, s.inst.VendorVersion
	left := pluginreport.Check{Name: "what the test made can be taken away", Result: pluginreport.Passed}
	begun := time.Now()
	if err := s.end(ctx); err != nil {
		left.Result, left.Message = pluginreport.Failed, err.Error()
	}
	left.Took = time.Since(begun)
	r.Add(left)
	return r, nil
}

// storage is a run of a storage plugin with its volume.
type storage struct {
	asked pluginreport.Asked
	dir   string
	path  string
	run   string // names what is made by this test
	log   *slog.Logger
	group *lifecycle.Group // of the plugin's processes

	process *os.Process // nil: it does not run
	ended   chan struct{}
	client  *csi.Client // of the process
	inst    csi.Instance

	vol  csi.Volume // empty: there is none
	more []string   // volumes that were made beside it, and are to be deleted
	last *way       // that was begun; nil: it is at its end
}

func (s *storage) socket() string { return filepath.Join(s.dir, "csi.sock") }

// begin starts the plugin's process. Its arguments may name the socket as ${CSI_ENDPOINT}.
func (s *storage) begin() error {
	if err := os.Remove(s.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(filepath.Join(s.dir, "said"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the plugin has its own
	endpoint := "unix://" + s.socket()
	var args []string
	for _, a := range s.asked.Command[1:] {
		args = append(args, strings.NewReplacer("${CSI_ENDPOINT}", endpoint, "$CSI_ENDPOINT", endpoint).Replace(a))
	}
	cmd := exec.Command(s.path, args...)
	cmd.Env = append(os.Environ(), "CSI_ENDPOINT="+endpoint)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process, s.ended = cmd.Process, make(chan struct{})
	ended := s.ended
	s.group.Go("plugin", func() error {
		defer close(ended)
		_ = cmd.Wait() // how it ends is judged by who waits for its answers
		return nil
	})
	return nil
}

// kill ends the plugin's process, and what it started of its group, without a warning.
func (s *storage) kill() error {
	if s.process == nil {
		return nil
	}
	if err := unix.Kill(-s.process.Pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	<-s.ended
	s.process = nil
	return s.hangUp()
}

func (s *storage) hangUp() error {
	if s.client == nil {
		return nil
	}
	err := s.client.Close()
	s.client = nil
	return err
}

// connected is a client of the process that runs. One that ended is started again.
func (s *storage) connected(ctx context.Context) (*csi.Client, error) {
	if s.client != nil {
		select {
		case <-s.client.Lost():
			if err := s.hangUp(); err != nil {
				return nil, err
			}
		default:
			return s.client, nil
		}
	}
	if s.process != nil {
		select {
		case <-s.ended:
			s.process = nil
		default:
		}
	}
	if s.process == nil {
		if err := s.begin(); err != nil {
			return nil, err
		}
	}
	for {
		c, err := csi.Dial(ctx, s.socket(), csi.Options{Plugin: filepath.Base(s.path), Log: s.log})
		if err == nil {
			if err = s.negotiate(ctx, c); err == nil {
				s.client = c
				return c, nil
			}
			err = errors.Join(err, c.Close())
		}
		select {
		case <-s.ended:
			s.process = nil
			return nil, fmt.Errorf("the plugin has ended%s", s.said())
		default:
		}
		if !retry.Sleep(ctx, 100*time.Millisecond) {
			return nil, fmt.Errorf("%w%s", err, s.said())
		}
	}
}

// negotiate asks for all that the plugin serves: both services, or one of them.
func (s *storage) negotiate(ctx context.Context, c *csi.Client) (err error) {
	var all []error
	for _, roles := range []csi.Roles{csi.RoleMonolith, csi.RoleNode, csi.RoleController} {
		inst, err := c.Negotiate(ctx, roles)
		if err == nil {
			s.inst = inst
			return nil
		}
		all = append(all, fmt.Errorf("as %s: %w", roles, err))
	}
	return errors.Join(all...)
}

// said is the end of what the plugin said.
func (s *storage) said() string { return lastWords(filepath.Join(s.dir, "said")) }

// passing reports an error after which an agent repeats a call: it may be done yet, or is still being done.
func passing(err error) bool {
	switch csi.CodeOf(err) {
	case codes.Aborted, codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return true
	}
	return csi.Lost(err)
}

var pause = retry.Backoff{Min: 20 * time.Millisecond, Max: time.Second}

// until repeats a call as an agent does, until it ends as it was asked for or is refused.
func (s *storage) until(ctx context.Context, what string, call call) error {
	for tries := 1; ; tries++ {
		c, err := s.connected(ctx)
		if err == nil {
			err = call(ctx, c)
			if err == nil {
				return nil
			}
			if !passing(err) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		if !pause.Sleep(ctx, tries) {
			return fmt.Errorf("%s: it was repeated %d times: %w", what, tries, err)
		}
	}
}

// call is one call of a plugin.
type call func(ctx context.Context, c *csi.Client) error

// need skips what the plugin does not claim.
func need(claims bool, what string) error {
	if !claims {
		return &skipped{"it does not claim " + what}
	}
	return nil
}

// needVolume skips what cannot be tested without a volume.
func (s *storage) needVolume() error {
	if s.vol.ID == "" {
		return &skipped{"there is no volume"}
	}
	return nil
}

func (s *storage) secrets() redact.Map { return s.asked.Volume.Secrets }

// use is how volumes are used: as file systems, by one writer.
func (s *storage) use(mode volume.AccessMode) csi.VolumeCapability {
	return csi.VolumeCapability{
		AccessMode:     mode,
		AttachmentMode: volume.FileSystem,
		FSType:         s.asked.Volume.FSType,
	}
}

// mounts are those beneath the directory of the test.
func (s *storage) mounts(beneath string) ([]hostfs.Mount, error) {
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		return nil, err
	}
	return table.Beneath(beneath), nil
}

// end takes away all that the test has made.
func (s *storage) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	_ = s.clear(ctx) // what is still mounted is unmounted by hand
	var errs []error
	mounts, err := s.mounts(s.dir)
	errs = append(errs, err)
	for i := len(mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(mounts[i].Path, unix.MNT_DETACH); err != nil {
			errs = append(errs, fault.Wrap(err, fault.Internal, "unmount", mounts[i].Path))
		}
	}
	for _, id := range s.made() {
		if err := s.until(ctx, "delete "+id, s.deletion(id)); err != nil {
			errs = append(errs, fault.WithHint(fault.Note(err, "clean up after", "the test"),
				"volume "+id+" may be left"))
		}
	}
	errs = append(errs, s.kill())
	s.group.Stop()
	return errors.Join(append(errs, s.group.Wait(), os.RemoveAll(s.dir))...)
}

// made are the volumes that the test made and has not deleted.
func (s *storage) made() []string {
	if s.vol.ID == "" {
		return s.more
	}
	return append([]string{s.vol.ID}, s.more...)
}
