package dockerapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/internal/base/fault"
)

// Create says what a container is. Names are those of the daemon's API; what is empty is left to it.
type Create struct {
	Hostname         string              `json:",omitempty"`
	User             string              `json:",omitempty"`
	Tty              bool                `json:",omitempty"`
	OpenStdin        bool                `json:",omitempty"`
	Env              []string            `json:",omitempty"`
	Cmd              []string            `json:",omitempty"`
	Entrypoint       []string            `json:",omitempty"`
	Image            string              `json:",omitempty"`
	WorkingDir       string              `json:",omitempty"`
	MacAddress       string              `json:",omitempty"`
	Labels           map[string]string   `json:",omitempty"`
	ExposedPorts     map[string]struct{} `json:",omitempty"`
	Healthcheck      *Healthcheck        `json:",omitempty"`
	HostConfig       *Host               `json:",omitempty"`
	NetworkingConfig *Networking         `json:",omitempty"`
}

// Healthcheck replaces that of an image; {"NONE"} has none.
type Healthcheck struct{ Test []string }

// Networking says how a container is in its network.
type Networking struct {
	EndpointsConfig map[string]*Endpoint `json:"EndpointsConfig"`
}

// Endpoint is a container's place in a network.
type Endpoint struct {
	Aliases    []string `json:",omitempty"`
	IPAMConfig *IPAM    `json:",omitempty"`
}

// IPAM are addresses that are asked for.
type IPAM struct {
	IPv4Address string `json:",omitempty"`
	IPv6Address string `json:",omitempty"`
}

// Host is how a container stands to the node.
type Host struct {
	NetworkMode  string            `json:",omitempty"`
	PidMode      string            `json:",omitempty"`
	IpcMode      string            `json:",omitempty"`
	UTSMode      string            `json:",omitempty"`
	UsernsMode   string            `json:",omitempty"`
	CgroupnsMode string            `json:",omitempty"`
	Runtime      string            `json:",omitempty"`
	Privileged   bool              `json:",omitempty"`
	Init         *bool             `json:",omitempty"`
	ReadOnly     bool              `json:"ReadonlyRootfs,omitempty"`
	CapAdd       []string          `json:",omitempty"`
	CapDrop      []string          `json:",omitempty"`
	SecurityOpt  []string          `json:",omitempty"`
	GroupAdd     []string          `json:",omitempty"`
	DNS          []string          `json:"Dns,omitempty"`
	DNSOptions   []string          `json:"DnsOptions,omitempty"`
	DNSSearch    []string          `json:"DnsSearch,omitempty"`
	ExtraHosts   []string          `json:",omitempty"`
	Mounts       []Mount           `json:",omitempty"`
	Devices      []Device          `json:",omitempty"`
	Ulimits      []Ulimit          `json:",omitempty"`
	Sysctls      map[string]string `json:",omitempty"`
	StorageOpt   map[string]string `json:",omitempty"`
	ShmSize      int64             `json:",omitempty"`
	OomScoreAdj  int               `json:",omitempty"`
	VolumeDriver string            `json:",omitempty"`
	LogConfig    *Log              `json:",omitempty"`

	DeviceCgroupRules []string `json:",omitempty"`
	// MaskedPaths and ReadonlyPaths are of /proc and /sys; nil: those of the daemon.
	MaskedPaths   *[]string `json:",omitempty"`
	ReadonlyPaths *[]string `json:",omitempty"`

	PortBindings map[string][]Binding `json:",omitempty"`

	CPUShares  int64  `json:"CpuShares,omitempty"`
	CPUPeriod  int64  `json:"CpuPeriod,omitempty"`
	CPUQuota   int64  `json:"CpuQuota,omitempty"`
	CpusetCpus string `json:",omitempty"`
	Memory     int64  `json:",omitempty"`                  // bytes; 0: no bound
	MemoryLow  int64  `json:"MemoryReservation,omitempty"` // what it has in any case
	MemorySwap int64  `json:",omitempty"`                  // with Memory: both together
	PidsLimit  int64  `json:",omitempty"`
}

// Mount is one of a container's: of type bind, volume or tmpfs.
type Mount struct {
	Type          string
	Source        string         `json:",omitempty"`
	Target        string         `json:",omitempty"`
	ReadOnly      bool           `json:",omitempty"`
	BindOptions   *BindOptions   `json:",omitempty"`
	VolumeOptions *VolumeOptions `json:",omitempty"`
	TmpfsOptions  *TmpfsOptions  `json:",omitempty"`
}

// BindOptions of a mount of type bind.
type BindOptions struct{ Propagation string }

// VolumeOptions of a mount of type volume.
type VolumeOptions struct {
	NoCopy       bool              `json:",omitempty"`
	Labels       map[string]string `json:",omitempty"`
	DriverConfig *DriverConfig     `json:",omitempty"`
}

// DriverConfig says what makes a volume.
type DriverConfig struct {
	Name    string            `json:",omitempty"`
	Options map[string]string `json:",omitempty"`
}

// TmpfsOptions of a mount of type tmpfs.
type TmpfsOptions struct {
	SizeBytes int64 `json:",omitempty"`
	Mode      int64 `json:",omitempty"`
}

// Device of the node.
type Device struct {
	PathOnHost        string `json:"PathOnHost"`
	PathInContainer   string `json:"PathInContainer"`
	CgroupPermissions string
}

// Ulimit of a container's processes.
type Ulimit struct {
	Name string
	Soft int64 `json:"Soft"`
	Hard int64 `json:"Hard"`
}

// Log is how the daemon keeps what a container writes.
type Log struct {
	Type   string
	Config map[string]string `json:",omitempty"`
}

// Binding is an address of the node at which a port of a container is.
type Binding struct {
	HostIP   string `json:"HostIp,omitempty"`
	HostPort string
}

// Container is one that there is.
type Container struct {
	ID      string `json:"Id"`
	Name    string
	Image   string // its id
	State   State
	ExecIDs []string // of commands in it that run
	Config  struct {
		Labels     map[string]string
		StopSignal string
		User       string
		Tty        bool
	}
}

// State of a container.
type State struct {
	Status     string // created, running, paused, restarting, removing, exited or dead
	Running    bool
	OOMKilled  bool
	Pid        int
	ExitCode   int
	Error      string
	StartedAt  time.Time
	FinishedAt time.Time
}

// Ended reports that a container was started and has ended.
func (s State) Ended() bool { return !s.Running && (s.Status == "exited" || s.Status == "dead") }

// Create makes a container and returns its id.
func (c *Client) Create(ctx context.Context, name string, body *Create) (string, error) {
	var out struct {
		ID string `json:"Id"`
	}
	err := c.call(ctx, http.MethodPost, "/containers/create", url.Values{"name": {name}}, body, &out)
	return out.ID, err
}

// Start starts a container.
func (c *Client) Start(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, "/containers/"+id+"/start", nil, nil, nil)
}

// Inspect describes a container by its id or name.
func (c *Client) Inspect(ctx context.Context, id string) (*Container, error) {
	var out Container
	if err := c.call(ctx, http.MethodGet, "/containers/"+id+"/json", nil, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Remove removes a container with its unnamed volumes, and ends it before if it runs.
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/containers/"+id, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
}

// Kill sends a signal to the main process of a container.
func (c *Client) Kill(ctx context.Context, id, signal string) error {
	return c.call(ctx, http.MethodPost, "/containers/"+id+"/kill", url.Values{"signal": {signal}}, nil, nil)
}

// Listed is what a list says of a container.
type Listed struct {
	ID      string `json:"Id"`
	Names   []string
	Labels  map[string]string
	State   string
	Created int64 // seconds
}

// List lists all containers that have all labels, "name" or "name=value".
func (c *Client) List(ctx context.Context, labels ...string) ([]Listed, error) {
	var out []Listed
	query := url.Values{"all": {"1"}, "filters": {filters("label", labels)}}
	err := c.call(ctx, http.MethodGet, "/containers/json", query, nil, &out)
	return out, err
}

func filters(name string, values []string) string {
	text, err := json.Marshal(map[string][]string{name: values})
	if err != nil {
		panic(err) // texts can always be written
	}
	return string(text)
}

// Usage is what a container uses; see the daemon's API for its parts.
type Usage struct {
	Read time.Time `json:"read"`
	CPU  struct {
		Usage struct {
			Total  uint64 `json:"total_usage"`
			Kernel uint64 `json:"usage_in_kernelmode"`
			User   uint64 `json:"usage_in_usermode"`
		} `json:"cpu_usage"`
		Throttling struct {
			Time uint64 `json:"throttled_time"`
		} `json:"throttling_data"`
	} `json:"cpu_stats"`
	Memory struct {
		Usage uint64            `json:"usage"`
		Max   uint64            `json:"max_usage"`
		Stats map[string]uint64 `json:"stats"`
	} `json:"memory_stats"`
	PIDs struct {
		Current int `json:"current"`
	} `json:"pids_stats"`
}

// Usage reads what a container uses now.
func (c *Client) Usage(ctx context.Context, id string) (*Usage, error) {
	var out Usage
	query := url.Values{"stream": {"0"}, "one-shot": {"1"}}
	if err := c.call(ctx, http.MethodGet, "/containers/"+id+"/stats", query, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Event is one of the daemon.
type Event struct {
	Type   string
	Action string
	Actor  struct {
		ID         string
		Attributes map[string]string
	}
}

// Events calls fn for each event of containers from now on, until ctx ends or the daemon does. begun is called when
// none can be missed any more.
func (c *Client) Events(ctx context.Context, begun func(), fn func(Event)) error {
	query := url.Values{
		"filters": {filters("type", []string{"container"})},
		"since":   {strconv.FormatInt(time.Now().Unix(), 10)},
	}
	res, err := c.open(ctx, http.MethodGet, "/events", query, nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it ends with the daemon
	begun()
	for d := json.NewDecoder(res.Body); ; {
		var e Event
		if err := d.Decode(&e); err != nil {
			return c.unreachable(ctx, err)
		}
		fn(e)
	}
}

// Info is what a daemon says of its node.
type Info struct {
	OSType   string
	Runtimes map[string]struct{}
}

// Info asks a daemon about its node.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	var out Info
	if err := c.call(ctx, http.MethodGet, "/info", nil, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Ping asks whether the daemon answers.
func (c *Client) Ping(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "!/_ping", nil, nil, nil)
}

// Archive reads a file or directory of a container as a tar archive.
func (c *Client) Archive(ctx context.Context, id, path string) (io.ReadCloser, error) {
	res, err := c.open(ctx, http.MethodGet, "/containers/"+id+"/archive", url.Values{"path": {path}}, nil, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// IsDir reports whether a path of a container is a directory.
func (c *Client) IsDir(ctx context.Context, id, path string) (bool, error) {
	res, err := c.open(ctx, http.MethodHead, "/containers/"+id+"/archive", url.Values{"path": {path}}, nil, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = res.Body.Close() }() // it has none
	text, err := base64.StdEncoding.DecodeString(res.Header.Get("X-Docker-Container-Path-Stat"))
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "read", "what Docker says of "+path)
	}
	var st struct {
		Mode fs.FileMode `json:"mode"`
	}
	err = json.Unmarshal(text, &st)
	return st.Mode.IsDir(), fault.Wrap(err, fault.Internal, "read", "what Docker says of "+path)
}
