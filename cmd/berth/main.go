// Command berth is server, node agent, bundled storage plugin and command line in one program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"berth/internal/agent"
	agentdir "berth/internal/agent/datadir"
	"berth/internal/agent/lostvolumes"
	form "berth/internal/base/backup"
	"berth/internal/base/collector"
	"berth/internal/base/descriptors"
	"berth/internal/base/leased"
	"berth/internal/base/lifecycle"
	"berth/internal/base/pluginreport"
	"berth/internal/base/privilege"
	"berth/internal/base/render"
	"berth/internal/base/storecheck"
	"berth/internal/base/volumestore"
	"berth/internal/cli"
	"berth/internal/httpapi/sandbox"
	"berth/internal/localcsi"
	"berth/internal/localcsi/datadir"
	"berth/internal/localcsi/watchdog"
	"berth/internal/plugincheck"
	"berth/internal/port/consul/setup"
	"berth/internal/port/fetch"
	"berth/internal/port/kv"
)

// version is set by the build; a build from a checkout says so.
var version = "0.1.0-dev"

func main() { os.Exit(run()) }

func run() int {
	// First of all, and in every role: agent and plugin start programs that must have nothing of whoever started us.
	if err := descriptors.CloseOnExec(); err != nil {
		return fail(err)
	}
	switch os.Args[0] {
	case sandbox.Work.Role:
		return sandbox.Main(os.Stdin, os.Stdout)
	case render.Work.Role:
		return render.Main(os.Stdin, os.Stdout)
	case fetch.Role:
		return fetch.Main(context.Background(), os.Args, os.Stdin, os.Stdout)
	case watchdog.Role:
		return watchdog.Main()
	case leased.Role:
		return leased.Main(context.Background())
	}
	app := cli.New(cli.Options{
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		Getenv:     os.Getenv,
		Version:    version,
		Agent:      runAgent,
		Identities: agent.Identities{},
		DataDirs:   dataDirs{},

		PluginTests: pluginTests{},
		SetUpConsul: setup.Consul,
		Plugins:     map[string]func(context.Context, []string) int{agent.LocalCSI: runLocalCSI},
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return unheld(func() int { return app.Run(ctx, os.Args[1:]) })
}

// unheld does something on another goroutine than the first, which is held on the first thread (base/privilege): each
// time that one waits, as a command does for each answer, costs two switches of threads. The children above wait for
// little, and what they bound is partly their thread's: they stay where they are.
func unheld(do func() int) (code int) {
	g, _ := lifecycle.NewGroup(context.Background())
	g.Go("program", func() error { code = do(); return nil })
	if err := g.Wait(); err != nil { // it panicked
		return fail(err)
	}
	return code
}

// pluginTests holds plugins of others to what the agent relies on. What they say themselves is in the report.
type pluginTests struct{}

// Driver implements plugintest.Tester.
func (pluginTests) Driver(ctx context.Context, asked pluginreport.Asked) (*pluginreport.Report, error) {
	return plugincheck.Driver(ctx, asked, slog.New(slog.DiscardHandler))
}

// Device implements plugintest.Tester.
func (pluginTests) Device(ctx context.Context, asked pluginreport.Asked) (*pluginreport.Report, error) {
	return plugincheck.Device(ctx, asked, slog.New(slog.DiscardHandler))
}

// CSI implements plugintest.Tester.
func (pluginTests) CSI(ctx context.Context, asked pluginreport.Asked) (*pluginreport.Report, error) {
	return plugincheck.CSI(ctx, asked, slog.New(slog.DiscardHandler))
}

// dataDirs checks data directories: the agent's stores and those of the bundled plugin.
type dataDirs struct{}

// Check implements cluster.DataDirs.
func (dataDirs) Check(dir string) (*storecheck.Report, error) {
	r, volumes, err := agent.CheckData(dir)
	if err != nil || volumes == "" {
		return r, err
	}
	s := storecheck.Store{Name: "bundled plugin", Path: volumes}
	found, bad := datadir.Check(volumes, volumestore.Copy(volumes))
	if s.Damage = storecheck.Texts(bad...); found != (datadir.Found{}) || len(bad) > 0 {
		s.Holds = fmt.Sprintf("%d volumes, %d snapshots", found.Volumes, found.Snapshots)
	}
	r.Add(s)
	return r, nil
}

// ForgetVolumes implements cluster.DataDirs.
func (dataDirs) ForgetVolumes(dir string, agree func(refused error, known []string) error) error {
	return lostvolumes.Forget(dir, filepath.Join(dir, agent.VolumesDir), agree)
}

// Sources implements backup.DataDirs.
func (dataDirs) Sources(dir string) (*form.Sources, error) {
	p, err := agentdir.Sources(dir)
	if err != nil {
		return nil, err
	}
	p.Plugin = agent.LocalCSI
	volumes := filepath.Join(dir, agent.VolumesDir)
	p.Images, p.Damaged = datadir.List(volumes, volumestore.Copy(volumes))
	for i := range p.Images {
		one := &p.Images[i]
		one.Record = filepath.Join(agent.VolumesDir, one.Record)
		one.Data = filepath.Join(agent.VolumesDir, one.Data)
	}
	if len(p.Images) > 0 {
		p.Files = append(p.Files, filepath.Join(agent.VolumesDir, datadir.IdentityFile))
	}
	return p, nil
}

// Snapshot implements backup.DataDirs.
func (dataDirs) Snapshot(p *form.Sources, id string) (form.Image, error) {
	one, err := datadir.SnapshotIn(id, p.NodeID)
	one.Data = filepath.Join(agent.VolumesDir, one.Data)
	one.Record = filepath.Join(agent.VolumesDir, one.Record)
	return one, err
}

// Restore implements backup.DataDirs.
func (dataDirs) Restore(ctx context.Context, from, dir string, progress form.Progress) (m *form.Manifest, err error) {
	lock, err := kv.LockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return form.Restore(ctx, from, dir, progress, nil)
}

// runAgent runs until the first signal; the second one ends the wait for tasks.
func runAgent(ctx context.Context, args []string) int {
	if err := privilege.HideMemory(); err != nil {
		return fail(err)
	}
	cfg, err := agent.Parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return fail(err)
	}
	// Asked for before the first comes, so that the second is not lost however soon it follows.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	impatient, by := make(chan struct{}), make(chan os.Signal, 2)
	hangups, reload := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	g, gctx := lifecycle.NewGroup(context.WithoutCancel(ctx))
	g.Go("signals", func() error {
		for range cap(signals) {
			select {
			case s := <-signals:
				by <- s // the first is the one by which it stops
			case <-gctx.Done():
				return nil
			}
		}
		close(impatient)
		return nil
	})
	g.Go("hangups", func() error { return passOn(gctx, hangups, reload) })
	g.Go("collector", func() error { return collector.New().Run(gctx) })
	err = agent.Run(ctx, cfg, version, agent.Signals{
		Again:  impatient,
		Reload: reload,
		By:     func() os.Signal { return <-by }, // it is on its way, or there, when ctx has ended
	})
	g.Stop()
	if werr := g.Wait(); err == nil {
		err = werr
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// passOn tells of each signal that comes, until ctx ends.
func passOn(ctx context.Context, signals <-chan os.Signal, to chan<- struct{}) error {
	for {
		select {
		case <-signals:
		case <-ctx.Done():
			return nil
		}
		select {
		case to <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
	}
}

func runLocalCSI(ctx context.Context, args []string) int {
	if err := privilege.HideMemory(); err != nil {
		return fail(err)
	}
	cfg := localcsi.Config{Version: version, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	fs := flag.NewFlagSet("berth plugin local-csi", flag.ContinueOnError)
	localcsi.Flags(fs, &cfg)
	fs.Usage = func() { localcsi.Usage(fs) }
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 1
	}
	if fs.NArg() > 0 {
		return fail(fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if err := localcsi.Run(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) {
		return fail(err)
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "Error:", err)
	return 1
}
