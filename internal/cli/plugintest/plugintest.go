// Package plugintest owns the commands by which authors test plugins of drivers, of devices and of storage. The
// command line imports it.
package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/pluginreport"
	"berth/internal/cli/kit"
)

// Tester tests plugins.
type Tester interface {
	Driver(ctx context.Context, asked pluginreport.Asked) (*pluginreport.Report, error)
	Device(ctx context.Context, asked pluginreport.Asked) (*pluginreport.Report, error)
	CSI(ctx context.Context, asked pluginreport.Asked) (*pluginreport.Report, error)
}

// exitFailed is the exit code of a test of which a check failed.
const exitFailed = 2

const exits = `Exits with 0 if no check failed, with 2 if one did, and with 1 if
nothing could be tested. The plugin runs as root, as under an agent, in a directory of its own, and nothing is left.`

// Noun returns "plugin test" with its verbs; nil: nobody tests.
func Noun(e *kit.Env, t Tester) *kit.Command {
	if t == nil {
		return nil
	}
	return kit.Noun("test", "Test a plugin that you write", newDriver(e, t), newDevice(e, t), newCSI(e, t))
}

func newDriver(e *kit.Env, t Tester) *kit.Command {
	var o options
	cmd := &kit.Command{
		Use:   "driver [flags] <command>...",
		Short: "Hold a plugin that drives tasks to what the agent relies on",
		Long: `Starts the plugin as an agent does, and holds it to the public protocol of drivers: that it is found
again, that tasks start, run and end, that their output arrives, and that they go on when the plugin or the agent is
killed. For that it needs the config of a task that writes something and runs until it is ended.
` + exits,
		Example: `  berth plugin test driver -task '{"command": "/bin/server", "greet": true}' ./hello-driver
  berth plugin test driver -json ./hello-driver`,
		Local:   true,
		Foreign: true,
		Run: func(ctx context.Context, args []string) error {
			return o.run(ctx, e, args, t.Driver)
		},
	}
	cmd.Flags().StringVar(&o.task, "task", "", "the `config` of a task, as JSON; without one nothing is started")
	return o.flags(cmd)
}

func newDevice(e *kit.Env, t Tester) *kit.Command {
	var o options
	cmd := &kit.Command{
		Use:   "device [flags] <command>...",
		Short: "Hold a plugin that offers devices to what the agent relies on",
		Long: `Starts the plugin as an agent does, and holds it to the public protocol of devices: that it finds
devices, that what it gives to a task is there, that it refuses what it does not have, and that it finds the same
devices after it was killed.
` + exits,
		Example: `  berth plugin test device -config '{"dir": "/srv/example-devices"}' ./example-device`,
		Local:   true,
		Foreign: true,
		Run: func(ctx context.Context, args []string) error {
			return o.run(ctx, e, args, t.Device)
		},
	}
	return o.flags(cmd)
}

type options struct {
	config, task string
	formats      kit.Formats
}

func (o *options) flags(cmd *kit.Command) *kit.Command {
	cmd.Flags().StringVar(&o.config, "config", "", "the `config` of the agent's plugin block, as JSON")
	return o.formats.AddTo(cmd)
}

type test func(context.Context, pluginreport.Asked) (*pluginreport.Report, error)

func (o *options) run(ctx context.Context, e *kit.Env, args []string, run test) error {
	asked := pluginreport.Asked{Command: args}
	for _, c := range []struct {
		flag, text string
		into       *map[string]any
	}{{"-config", o.config, &asked.Config}, {"-task", o.task, &asked.Task}} {
		if c.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
			return kit.Fail(fault.Invalid, `write an object, such as '{"dir": "/srv"}'`, "%s is no JSON: %s", c.flag,
				err)
		}
	}
	return report(ctx, e, &o.formats, asked, run)
}

// report runs a test and shows what it found.
func report(ctx context.Context, e *kit.Env, formats *kit.Formats, asked pluginreport.Asked, run test) error {
	r, err := run(ctx, asked)
	if err := formats.Show(e.Out, r, err, func() { show(e, r) }); err != nil {
		return err
	}
	if r.Failed > 0 {
		return &kit.Exit{Code: exitFailed}
	}
	return nil
}

var marks = map[string]string{
	pluginreport.Passed:  "ok",
	pluginreport.Failed:  "FAILED",
	pluginreport.Skipped: "skipped",
}

func show(e *kit.Env, r *pluginreport.Report) {
	rows := make([][]string, 0, len(r.Checks))
	for _, c := range r.Checks {
		rows = append(rows, []string{marks[c.Result], c.Name, strings.ReplaceAll(c.Message, "\n", " "),
			c.Took.Round(time.Millisecond).String()})
	}
	title := "Plugin of a " + r.Kind
	if r.Name != "" {
		title = strings.Join(strings.Fields(fmt.Sprintf("Plugin %s %s (%s)", kit.Clean(r.Name), kit.Clean(r.Version),
			r.Kind)), " ")
	}
	e.Out.Printf("%s\n\n", e.Out.Bold(title))
	e.Out.Table([]string{"Result", "Promise", "Found", "Took"}, rows)
	e.Out.Printf("\nOf %d: %d passed, %d failed, %d skipped\n", len(r.Checks),
		len(r.Checks)-r.Failed-r.Skipped, r.Failed, r.Skipped)
}
