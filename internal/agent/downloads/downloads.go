// Package downloads owns what an agent's configuration says of how its node fetches the artifacts of tasks. Only
// package agent imports it.
package downloads

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
	"berth/internal/client/artifacts"
	"berth/jobspec"
)

// Block is the artifact block of the client's.
type Block struct {
	HTTPReadTimeout *time.Duration `hcl:"http_read_timeout"`              // of one artifact; not set: 30m; 0: none
	HTTPMaxSize     string         `hcl:"http_max_size"`                  // of one, as received; empty: 100GB; 0: none
	GitTimeout      *time.Duration `hcl:"git_timeout"`                    // not set: 30m; 0: none
	UnpackedSize    string         `hcl:"decompression_size_limit"`       // empty: 100GB; 0: none
	UnpackedFiles   *int           `hcl:"decompression_file_count_limit"` // not set: 4096; 0: none
	Unconfined      *bool          `hcl:"disable_filesystem_isolation"`   // for kernels without Landlock
	// Readable are files and directories that what fetches may read in addition.
	Readable []string `hcl:"filesystem_isolation_extra_paths"`
	// Environment names, with commas between, variables that what fetches has of the agent's beside its proxies.
	Environment string `hcl:"set_environment_variables"`
	// AllowAddresses are addresses and subnets that artifacts may come from although they are the loopback's, the
	// link's or none.
	AllowAddresses []string `hcl:"allow_addresses"`
}

// Refused are settings that people bring along from elsewhere, with the reason why they are not here.
var Refused = map[string]string{
	"disable_artifact_inspection": "what was fetched is always looked at before it is put in its place; leave it out",
	"gcs_timeout":                 "objects are fetched by http; write http_read_timeout",
	"hg_timeout":                  "Mercurial is not called; leave it out",
	"s3_timeout":                  "objects are fetched by http; write http_read_timeout",
}

// Override lays f over b.
func (b *Block) Override(f *Block) {
	overlay.Pick(&b.HTTPReadTimeout, f.HTTPReadTimeout)
	overlay.Pick(&b.HTTPMaxSize, f.HTTPMaxSize)
	overlay.Pick(&b.GitTimeout, f.GitTimeout)
	overlay.Pick(&b.UnpackedSize, f.UnpackedSize)
	overlay.Pick(&b.UnpackedFiles, f.UnpackedFiles)
	overlay.Pick(&b.Unconfined, f.Unconfined)
	overlay.Pick(&b.Environment, f.Environment)
	if f.Readable != nil {
		b.Readable = f.Readable
	}
	if f.AllowAddresses != nil {
		b.AllowAddresses = f.AllowAddresses
	}
}

// What an agent does where nothing is written.
const (
	usualTime  = 30 * time.Minute
	usualSize  = "100GB"
	usualFiles = 4096
)

// proxies are the variables by which programs know of proxies.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"all_proxy"}

// Settings reads a block; nil is one that says nothing. Ports are those at which the agent answers.
func (b *Block) Settings(ports ...int) (artifacts.Settings, error) {
	if b == nil {
		b = &Block{}
	}
	var out artifacts.Settings
	var errs []error
	size := func(name, text string) int64 {
		if text == "" {
			text = usualSize
		}
		n, err := jobspec.ParseSize(text)
		if err != nil {
			errs = append(errs, bad(name, err.Error(), "leave it out for "+usualSize))
		}
		return n
	}
	within := func(name string, d *time.Duration) time.Duration {
		if d == nil {
			return usualTime
		}
		if *d < 0 {
			errs = append(errs, bad(name, fmt.Sprintf("%s is no time", *d), "write 0 for none"))
		}
		return *d
	}
	out.Bounds.Received = size("http_max_size", b.HTTPMaxSize)
	out.Bounds.Unpacked = size("decompression_size_limit", b.UnpackedSize)
	out.Bounds.HTTP = within("http_read_timeout", b.HTTPReadTimeout)
	out.Bounds.Git = within("git_timeout", b.GitTimeout)
	if out.Bounds.Files = usualFiles; b.UnpackedFiles != nil {
		out.Bounds.Files = *b.UnpackedFiles
	}
	if out.Bounds.Files < 0 {
		errs = append(errs, bad("decompression_file_count_limit",
			fmt.Sprintf("%d files are no bound", out.Bounds.Files), "write 0 for none"))
	}
	var err error
	out.Allowed, err = b.allowed()
	errs = append(errs, err)
	errs = append(errs, b.unreadable())
	out.Readable = b.Readable
	out.Unconfined = b.Unconfined != nil && *b.Unconfined
	for _, port := range ports {
		if port > 0 {
			out.Ports = append(out.Ports, uint16(port))
		}
	}
	out.Environment = slices.Clone(proxies)
	for name := range strings.SplitSeq(b.Environment, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out.Environment = append(out.Environment, name)
		}
	}
	return out, errors.Join(errs...)
}

// unreadable reports paths that what fetches could not read.
func (b *Block) unreadable() (err error) {
	for _, at := range b.Readable {
		clean := path.Clean(at)
		if !path.IsAbs(at) {
			err = errors.Join(err, bad("filesystem_isolation_extra_paths", fmt.Sprintf("%q is not absolute", at),
				"write whole paths"))
		} else if clean == "/tmp" || strings.HasPrefix(clean, "/tmp/") {
			err = errors.Join(err, bad("filesystem_isolation_extra_paths",
				fmt.Sprintf("what fetches sees its own directory as /tmp, and not %q", at), "have it lie elsewhere"))
		}
	}
	return err
}

// allowed are the addresses that are asked in addition.
func (b *Block) allowed() (out []netip.Prefix, err error) {
	for _, text := range b.AllowAddresses {
		p, perr := subnet(text)
		if perr != nil {
			err = errors.Join(err, bad("allow_addresses", fmt.Sprintf("%q is no address and no subnet", text),
				"write it as in \"127.0.0.1\" or \"169.254.0.0/16\""))
		}
		out = append(out, p)
	}
	return out, err
}

func subnet(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Prefix(a.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

func bad(name, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure", "client artifact "+name, why), hint)
}
