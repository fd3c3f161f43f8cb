package agent

import (
	"context"
	"log/slog"

	"berth/internal/base/redact"
	"berth/internal/client/identity"
)

// Identities decides who the node of a data directory is that no agent uses.
type Identities struct{}

// Keep has a node whose store was lost go on as the node of a token.
func (Identities) Keep(ctx context.Context, dataDir string, token redact.Secret) (node string, err error) {
	cfg, err := offline(dataDir)
	if err != nil {
		return "", err
	}
	id, err := identity.Keep(ctx, cfg, token)
	return string(id), err
}

// New has a node whose store was lost begin as another one.
func (Identities) New(ctx context.Context, dataDir string) (node string, err error) {
	cfg, err := offline(dataDir)
	if err != nil {
		return "", err
	}
	id, err := identity.New(ctx, cfg)
	return string(id), err
}

// offline is where a node's things lie in a data directory that no agent uses.
func offline(dataDir string) (identity.Config, error) {
	c := &Config{DataDir: dataDir}
	if err := c.resolve(); err != nil {
		return identity.Config{}, err
	}
	return c.identity(), nil
}

func (c *Config) identity() identity.Config {
	a := &Agent{cfg: c}
	return identity.Config{
		DataDir: c.DataDir,
		Shims:   c.shimDir(),
		Volumes: []string{a.volumes()},
		Log:     slog.New(slog.DiscardHandler),
	}
}
