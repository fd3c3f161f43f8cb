package servers

import (
	"context"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

func newGetConfig(e *kit.Env) *kit.Command {
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "get-config [flags]",
		Short:   "Show how the servers keep themselves",
		Example: "  berth operator autopilot get-config",
		Run: func(ctx context.Context, _ []string) error {
			c, err := e.Client().Operator().AutopilotConfiguration(ctx, nil)
			return formats.Show(e.Out, c, kit.Doing(err, "read", "how the servers keep themselves", ""), func() {
				e.Out.Printf("CleanupDeadServers = %t\nLastContactThreshold = %s\nMaxTrailingLogs = %d\n"+
					"MinQuorum = %d\nServerStabilizationTime = %s\n", c.CleanupDeadServers,
					kit.Clean(c.LastContactThreshold), c.MaxTrailingLogs, c.MinQuorum,
					kit.Clean(c.ServerStabilizationTime))
			})
		},
	}
	return formats.AddTo(cmd)
}

// changes are what somebody says anew: empty is what stays.
type changes struct {
	cleanup, trailing, quorum string
	contact, stable           string // durations
}

func (w *changes) apply(c *api.AutopilotConfiguration) (err error) {
	if w.cleanup != "" {
		if c.CleanupDeadServers, err = strconv.ParseBool(w.cleanup); err != nil {
			return kit.Usage("-cleanup-dead-servers is true or false")
		}
	}
	for flag, n := range map[string]struct {
		text string
		to   *uint64
	}{"-max-trailing-logs": {w.trailing, &c.MaxTrailingLogs}, "-min-quorum": {w.quorum, &c.MinQuorum}} {
		if n.text == "" {
			continue
		}
		if *n.to, err = strconv.ParseUint(n.text, 10, 64); err != nil {
			return kit.Usage("%s is a whole number", flag)
		}
	}
	for flag, d := range map[string]struct {
		text string
		to   *string
	}{
		"-last-contact-threshold":    {w.contact, &c.LastContactThreshold},
		"-server-stabilization-time": {w.stable, &c.ServerStabilizationTime},
	} {
		if d.text == "" {
			continue
		}
		if _, err := time.ParseDuration(d.text); err != nil {
			return kit.Usage("%s is a duration such as 200ms or 10s", flag)
		}
		*d.to = d.text
	}
	return nil
}

func newSetConfig(e *kit.Env) *kit.Command {
	var w changes
	cmd := &kit.Command{
		Use:   "set-config [flags]",
		Short: "Say how the servers keep themselves",
		Long: `Changes what is named, and leaves the rest as it is. A server that is dead is taken off, for good, only
where it is said how many there are to be, by -min-quorum or bootstrap_expect, and more than so many vote: others have
taken its place then.`,
		Example: `  berth operator autopilot set-config -min-quorum 3
  berth operator autopilot set-config -cleanup-dead-servers=false`,
		Run: func(ctx context.Context, _ []string) error {
			if w == (changes{}) {
				return kit.Usage("name what is to change")
			}
			const doing, what = "change", "how the servers keep themselves"
			c, err := e.Client().Operator().AutopilotConfiguration(ctx, nil)
			if err != nil {
				return kit.Doing(err, doing, what, "")
			}
			if err := w.apply(c); err != nil {
				return err
			}
			holds, err := e.Client().Operator().SetAutopilotConfiguration(ctx, c)
			switch {
			case err != nil:
				return kit.Doing(err, doing, what, "")
			case !holds:
				return kit.Fail(fault.Conflict, "look at it with: berth operator autopilot get-config",
					"%s %s: somebody else changed it meanwhile, and nothing was written", doing, what)
			}
			e.Out.Printf("Configuration updated\n")
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.cleanup, "cleanup-dead-servers", "", "`true` or false: whether dead servers are taken off")
	f.StringVar(&w.contact, "last-contact-threshold", "", "the `duration` within which one that is well answers")
	f.StringVar(&w.trailing, "max-trailing-logs", "", "the `count` of entries that one that is well may lack")
	f.StringVar(&w.quorum, "min-quorum", "", "the `count` of voters that are to stay; 0: bootstrap_expect says it")
	f.StringVar(&w.stable, "server-stabilization-time", "", "the `duration` for which a new server is well first")
	return cmd
}
