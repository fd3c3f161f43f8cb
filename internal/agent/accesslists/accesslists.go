// Package accesslists owns the block of an agent's configuration about access control lists. Only the agent imports it.
package accesslists

import (
	"fmt"
	"time"

	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
	"berth/internal/model/acl"
)

// Block configures access control lists.
type Block struct {
	// Enabled: requests to the port of the API are judged by them; not set: but with -dev.
	Enabled *bool `hcl:"enabled"`
	// BootstrapOverHTTP lets whoever reaches the port make the first token; not set: it is made over the unix socket.
	BootstrapOverHTTP *bool `hcl:"bootstrap_over_http"`
	// How long tokens that expire may live.
	MinTTL *time.Duration `hcl:"token_min_expiration_ttl"`
	MaxTTL *time.Duration `hcl:"token_max_expiration_ttl"`
}

// Refused are settings that are known elsewhere.
var Refused = map[string]string{
	"policy_ttl":        "nothing is kept that a change would have to wait for; leave it out",
	"replication_token": "there is one region, whose servers all have the tokens; leave it out",
	"role_ttl":          "nothing is kept that a change would have to wait for; leave it out",
	"token_ttl":         "nothing is kept that a change would have to wait for; leave it out",
}

// Override lays f over b.
func (b *Block) Override(f *Block) {
	overlay.Pick(&b.Enabled, f.Enabled)
	overlay.Pick(&b.BootstrapOverHTTP, f.BootstrapOverHTTP)
	overlay.Pick(&b.MinTTL, f.MinTTL)
	overlay.Pick(&b.MaxTTL, f.MaxTTL)
}

// Default says whether lists are on where nobody has said it.
func (b *Block) Default(on bool) {
	if b.Enabled == nil {
		b.Enabled = &on
	}
}

// Open tells whether whoever reaches the port may make the first token.
func (b *Block) Open() bool { return b.BootstrapOverHTTP != nil && *b.BootstrapOverHTTP }

// Lifetime is how long tokens that expire may live.
func (b *Block) Lifetime() acl.Life {
	out := acl.DefaultLife
	if b.MinTTL != nil {
		out.Min = *b.MinTTL
	}
	if b.MaxTTL != nil {
		out.Max = *b.MaxTTL
	}
	return out
}

// Check refuses lifetimes that no token could have.
func (b *Block) Check() error {
	span := b.Lifetime()
	if span.Min > 0 && span.Min <= span.Max {
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Invalid, "configure", "acl token_min_expiration_ttl and token_max_expiration_ttl",
			fmt.Sprintf("%s to %s is no span of time", span.Min, span.Max)),
		fmt.Sprintf("leave them out for %s to %s", acl.DefaultLife.Min, acl.DefaultLife.Max))
}
