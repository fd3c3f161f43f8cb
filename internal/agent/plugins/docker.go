package plugins

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/driver/docker"
	"berth/internal/port/driver/docker/images"
	"berth/internal/port/driver/docker/spec"
)

// Docker is the block of the driver docker.
type Docker struct {
	Config *DockerOptions `hcl:"config,block"`
}

// DockerOptions are what the block of the driver docker can hold.
type DockerOptions struct {
	Endpoint        *string  `hcl:"endpoint"` // unix:///path
	AllowPrivileged *bool    `hcl:"allow_privileged"`
	AllowCaps       []string `hcl:"allow_caps"`
	AllowRuntimes   []string `hcl:"allow_runtimes"`
	ExtraLabels     []string `hcl:"extra_labels"`
	PIDsLimit       *int     `hcl:"pids_limit"`

	PullActivityTimeout *time.Duration `hcl:"pull_activity_timeout"`
	ImagePullTimeout    *time.Duration `hcl:"image_pull_timeout"`

	Auth    *DockerAuth    `hcl:"auth,block"`
	GC      *DockerGC      `hcl:"gc,block"`
	Volumes *DockerVolumes `hcl:"volumes,block"`
	Logging *DockerLogging `hcl:"logging,block"`

	// What others need, and Berth does not: it is taken, so that configurations need no change.
	InfraImage            *string        `hcl:"infra_image"`
	InfraImagePullTimeout *time.Duration `hcl:"infra_image_pull_timeout"`
}

// DockerAuth says where it is known who one is at registries.
type DockerAuth struct {
	Config string `hcl:"config"` // a file like Docker's config.json
	Helper string `hcl:"helper"` // the program docker-credential-<helper>
}

// DockerGC says what is removed that nothing uses.
type DockerGC struct {
	Image      *bool           `hcl:"image"`
	ImageDelay *time.Duration  `hcl:"image_delay"`
	Container  *bool           `hcl:"container"`
	Dangling   *DockerDangling `hcl:"dangling_containers,block"`
}

// DockerDangling says whether containers of allocs that have ended are removed.
type DockerDangling struct {
	Enabled *bool `hcl:"enabled"`
}

// DockerVolumes says whether jobs may mount directories of the node.
type DockerVolumes struct {
	Enabled *bool `hcl:"enabled"`
}

// DockerLogging is how the daemon keeps what containers write.
type DockerLogging struct {
	Type   string            `hcl:"type"`
	Config map[string]string `hcl:"config,map"`
}

// dockerRefusals are options of others, with what there is in their place.
var dockerRefusals = map[string]string{
	"tls":                                    "only a unix socket of the node is spoken with; name it as endpoint",
	"disable_log_collection":                 "it is a job's to say: logs { disabled = true }",
	"nvidia_runtime":                         "name it in allow_runtimes",
	"windows_allow_insecure_container_admin": "there is no Windows here",
	"oom_score_adj":                          "it is a job's to say, in the task's config",
}

const unixScheme = "unix://"

// docker is what the block says, and what is wrong with it.
func (p *Plugin) docker() (DockerOptions, error) {
	if p.Docker == nil || p.Docker.Config == nil {
		return DockerOptions{}, nil
	}
	o := *p.Docker.Config
	var errs []error
	if o.Endpoint != nil {
		path, ok := strings.CutPrefix(*o.Endpoint, unixScheme)
		if !ok || !filepath.IsAbs(path) {
			errs = append(errs, bad(p.what()+" endpoint", "it is no unix socket of this node",
				"write unix:// and the path of the socket, as in unix:///var/run/docker.sock"))
		}
	}
	if o.PIDsLimit != nil && *o.PIDsLimit < 1 {
		errs = append(errs, bad(p.what()+" pids_limit", "it leaves no process", "write 1 or more, or leave it out"))
	}
	if a := o.Auth; a != nil {
		if a.Config != "" && !filepath.IsAbs(a.Config) {
			errs = append(errs, bad(p.what()+" auth config", "it is no absolute path", "write one"))
		}
		if strings.ContainsRune(a.Helper, '/') {
			errs = append(errs, bad(p.what()+" auth helper", "it is a path",
				"write what stands behind docker-credential- in the name of the program"))
		}
	}
	for name, d := range map[string]*time.Duration{
		"pull_activity_timeout": o.PullActivityTimeout,
		"image_pull_timeout":    o.ImagePullTimeout,
	} {
		if d != nil && *d <= 0 {
			errs = append(errs, bad(p.what()+" "+name, "nothing can be pulled in no time", `write as in "5m"`))
		}
	}
	return o, errors.Join(errs...)
}

// DockerConfig is how the driver docker is configured.
func (p *Plugin) DockerConfig() (docker.Config, error) {
	o, err := p.docker()
	c := docker.Config{
		Policy: spec.Policy{
			AllowPrivileged: isYes(o.AllowPrivileged, false),
			AllowCaps:       o.AllowCaps,
			AllowRuntimes:   o.AllowRuntimes,
			ExtraLabels:     o.ExtraLabels,
		},
		Images: images.Config{
			Delay:               images.DefaultDelay,
			PullActivityTimeout: orZero(o.PullActivityTimeout),
			PullTimeout:         orZero(o.ImagePullTimeout),
		},
	}
	if o.Endpoint != nil {
		c.Socket = strings.TrimPrefix(*o.Endpoint, unixScheme)
	}
	if o.PIDsLimit != nil {
		c.PIDsLimit = int64(*o.PIDsLimit)
	}
	if a := o.Auth; a != nil {
		c.Images.AuthFile, c.Images.AuthHelper = a.Config, a.Helper
	}
	if v := o.Volumes; v != nil {
		c.AllowVolumes = isYes(v.Enabled, false)
	}
	if l := o.Logging; l != nil {
		c.LogType, c.LogOptions = l.Type, l.Config
	}
	if gc := o.GC; gc != nil {
		c.Images.Keep = !isYes(gc.Image, true)
		c.KeepContainers = !isYes(gc.Container, true)
		if gc.ImageDelay != nil {
			c.Images.Delay = *gc.ImageDelay
		}
		if gc.Dangling != nil {
			c.SweepOff = !isYes(gc.Dangling.Enabled, true)
		}
	}
	return c, fault.Note(err, "", "")
}

func isYes(set *bool, otherwise bool) bool {
	if set == nil {
		return otherwise
	}
	return *set
}

func orZero(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}
