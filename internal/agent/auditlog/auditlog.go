// Package auditlog owns the block of an agent's configuration that says where it is recorded who did what by its API.
// Only the agent imports it.
package auditlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
	"berth/internal/httpapi/audit"
)

// Block configures the audit log.
type Block struct {
	Enabled *bool  `hcl:"enabled"` // not set: but with -dev
	Path    string `hcl:"path"`    // not set: audit/audit.log below data_dir
	// RotateBytes is how large a file may be, RotateMaxFiles how many that were full are kept beside it.
	RotateBytes    *int  `hcl:"rotate_bytes"`
	RotateMaxFiles *int  `hcl:"rotate_max_files"`
	Reads          *bool `hcl:"reads"` // what changes nothing is recorded, too
}

// Refused are names by which the settings are known elsewhere.
var Refused = map[string]string{
	"sink":   "there is one, a file of JSON lines: write path, rotate_bytes and rotate_max_files in audit itself",
	"filter": "what changes something or is refused is always recorded, reads with reads = true; leave it out",
}

// What holds where nothing is set.
const (
	rotateBytes = 32 << 20
	rotateFiles = 10
)

// Override lays f over b.
func (b *Block) Override(f *Block) {
	overlay.Pick(&b.Enabled, f.Enabled)
	overlay.Pick(&b.Path, f.Path)
	overlay.Pick(&b.RotateBytes, f.RotateBytes)
	overlay.Pick(&b.RotateMaxFiles, f.RotateMaxFiles)
	overlay.Pick(&b.Reads, f.Reads)
}

// On tells whether there is a record.
func (b *Block) On(dev bool) bool {
	if b == nil || b.Enabled == nil {
		return !dev
	}
	return *b.Enabled
}

// Check refuses what cannot work.
func (b *Block) Check() error {
	bad := func(what, why, hint string) error {
		return fault.WithHint(fault.New(fault.Invalid, "configure", "audit "+what, why), hint)
	}
	if b == nil {
		return nil
	}
	var errs []error
	if b.Path != "" && !filepath.IsAbs(b.Path) {
		errs = append(errs,
			bad("path "+b.Path, "it must be absolute", "leave it out for audit/audit.log below data_dir"))
	}
	if b.RotateBytes != nil && *b.RotateBytes < 1<<16 {
		errs = append(errs,
			bad("rotate_bytes", fmt.Sprintf("%d is less than 65536", *b.RotateBytes), "leave it out for 32 MiB"))
	}
	if b.RotateMaxFiles != nil && (*b.RotateMaxFiles < 0 || *b.RotateMaxFiles > 10000) {
		errs = append(errs, bad("rotate_max_files", fmt.Sprintf("%d is not between 0 and 10000", *b.RotateMaxFiles),
			"leave it out for 10"))
	}
	return errors.Join(errs...)
}

// Config is what the block says; the zero value says that there is no record.
func (b *Block) Config(dev bool, dataDir string) audit.Config {
	if !b.On(dev) {
		return audit.Config{}
	}
	out := audit.Config{
		Path:     filepath.Join(dataDir, "audit", "audit.log"),
		MaxBytes: rotateBytes,
		Files:    rotateFiles,
	}
	if b == nil {
		return out
	}
	if b.Path != "" {
		out.Path = filepath.Clean(b.Path)
	}
	if b.RotateBytes != nil {
		out.MaxBytes = int64(*b.RotateBytes)
	}
	if b.RotateMaxFiles != nil {
		out.Files = *b.RotateMaxFiles
	}
	out.Reads = b.Reads != nil && *b.Reads
	return out
}
