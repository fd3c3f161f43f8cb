package agent

import (
	"errors"
	"fmt"
	"syscall"

	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
	"berth/internal/httpapi/conns"
)

// LimitsBlock bounds what clients of the HTTP API may take of this agent. What it leaves out follows from how many
// descriptors the agent may open.
type LimitsBlock struct {
	// MaxConns is how many connections there may be in all; 0: no bound.
	MaxConns *int `hcl:"http_max_conns"`
	// MaxConnsPerClient is how many one client may have: a user of the socket, an address of the port; 0: no bound.
	MaxConnsPerClient *int `hcl:"http_max_conns_per_client"`
}

func (l *LimitsBlock) override(f *LimitsBlock) {
	overlay.Pick(&l.MaxConns, f.MaxConns)
	overlay.Pick(&l.MaxConnsPerClient, f.MaxConnsPerClient)
}

// checkLimits refuses bounds that are none.
func (c *Config) checkLimits() error {
	var errs []error
	for name, n := range map[string]*int{
		"limits http_max_conns":            c.Limits.MaxConns,
		"limits http_max_conns_per_client": c.Limits.MaxConnsPerClient,
	} {
		if n != nil && *n < 0 {
			errs = append(errs, bad(name, fmt.Sprintf("%d is no bound", *n), "write 0 for none"))
		}
	}
	return errors.Join(errs...)
}

// checkDownloads refuses what artifacts cannot be fetched by.
func (c *Config) checkDownloads() error {
	_, err := c.Client.Artifact.Settings()
	return err
}

// bounds are those of connections to the HTTP API.
func (c *Config) bounds() (conns.Bounds, error) {
	var descriptors syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &descriptors); err != nil {
		return conns.Bounds{}, fault.Wrap(err, fault.Internal, "read", "the limit of open files")
	}
	b := conns.Within(descriptors.Cur)
	if n := c.Limits.MaxConns; n != nil {
		b.Total, b.PerClient = *n, *n/2
	}
	if n := c.Limits.MaxConnsPerClient; n != nil {
		b.PerClient = *n
	}
	return b, nil
}
