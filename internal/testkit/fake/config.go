// Package fake owns a scriptable CSI plugin for tests: strict about order and arguments, deterministic, with real
// mounts where it may make them, and conforming (kubernetes-csi's sanity suite runs on it). Only conformance/csi
// imports it: everybody else gets it from csitest, behind the recording proxy, so that its calls are judged.
package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/port/csi"
)

// Mounting says what the fake does at staging and target paths.
type Mounting string

// The ways of mounting. MountNothing only makes the directories, as plugins for tests often do.
const (
	MountBind    Mounting = "bind" // the volume's directory is bound; data outlives everything; needs root
	MountNothing Mounting = "none"
)

// Config scripts a fake. Its JSON form is what a fake that runs as a process of its own is given.
type Config struct {
	Name       string                      // provider name; empty gives "fake.csi.berth.test"
	NodeID     string                      // storage node id; empty: no node service
	NoControl  bool                        // no controller service
	Controller csi.Caps[csi.ControllerCap] // nil gives everything that the fake can do but PUBLISH_READONLY is kept
	Node       csi.Caps[csi.NodeCap]       // nil gives everything that the fake can do
	Plugin     csi.Caps[csi.PluginCap]     // beyond CONTROLLER_SERVICE: accessibility
	Expansion  csi.Caps[csi.ExpansionCap]  // nil gives ONLINE
	Topology   map[string]string           // of the node; needs csi.CapAccessibility
	MaxVolumes int64                       // attach limit of the node
	Capacity   int64                       // bytes of the whole backend; 0 gives 100 GiB
	Mount      Mounting                    // empty gives MountBind for root, MountNothing for others
	Dir        string                      // where the backend lives: volumes' directories and the state file
	Memory     bool                        // the state is in memory instead, of this run alone: it costs nothing
	NodeExpand bool                        // ControllerExpand demands NodeExpand
	SnapPolls  int                         // a snapshot is ready at the n-th equal CreateSnapshot after the first
	NotReady   int                         // that many first probes of a run answer ready = false
	// when set: every volume is abnormal with this message, as plugins of 1.12 tell it
	Condition string
	Defects   map[string]Defect // by RPC name: what is wrong with its answers
	// name of a secret without which every call that can carry secrets is refused
	Needs string
	// by RPC name: how long its calls take
	Slow map[string]time.Duration
	// how many slow calls are made at once; the others wait their turn. 0: all
	AtOnce int
	// RPCs whose first call in a run fails with an error that repeats the secrets and mount flags
	Echo []string
	// contexts hold a login made of the secrets, and calls must hand it back as it was
	EchoContext bool
}

// Defect is a way of answering OK outside of the specification.
type Defect string

// The defects.
const (
	DefectForgets  Defect = "forgets"  // of an undoing: OK, and what is mounted stays, as after a loss of memory
	DefectEmpty    Defect = "empty"    // an answer without its required message
	DefectHuge     Defect = "huge"     // more than 4 MiB
	DefectUTF8     Defect = "utf8"     // a string that is not UTF-8
	DefectLongID   Defect = "long-id"  // an id of 129 bytes
	DefectNegative Defect = "negative" // a negative size
)

var (
	allController = csi.Caps[csi.ControllerCap]{csi.CapCreateDelete, csi.CapAttach, csi.CapListVolumes,
		csi.CapGetCapacity, csi.CapSnapshot,
		csi.CapListSnapshots, csi.CapClone, csi.CapAttachReadOnly, csi.CapExpand, csi.CapListAttachedNodes}
	allNode = csi.Caps[csi.NodeCap]{csi.CapStage, csi.CapStats, csi.CapNodeExpand, csi.CapMountGroup}
)

func (c Config) filled() (Config, error) {
	if c.Name == "" {
		c.Name = "fake.csi.berth.test"
	}
	if c.Controller == nil {
		c.Controller = allController
	}
	if c.Node == nil {
		c.Node = allNode
	}
	if c.Expansion == nil {
		c.Expansion = csi.Caps[csi.ExpansionCap]{csi.ExpandOnline}
	}
	if c.Capacity == 0 {
		c.Capacity = 100 << 30
	}
	if c.Mount == "" {
		c.Mount = MountNothing
		if os.Geteuid() == 0 {
			c.Mount = MountBind
		}
	}
	if c.Condition != "" {
		c.Node = append(slices.Clone(c.Node), csi.CapVolumeConditionNode)
		c.Controller = append(slices.Clone(c.Controller), csi.CapVolumeConditionCtrl)
	}
	if !filepath.IsAbs(c.Dir) {
		return c, fmt.Errorf("the fake plugin needs an absolute directory, not %q", c.Dir)
	}
	return c, os.MkdirAll(filepath.Join(c.Dir, "volumes"), 0o700)
}

// Plugin is one run of a fake plugin. What it stores lies in Config.Dir and outlives it.
type Plugin struct {
	pb.UnimplementedIdentityServer
	pb.UnimplementedControllerServer
	pb.UnimplementedNodeServer

	cfg   Config
	store *store

	mu     sync.Mutex
	busy   map[string]bool // volumes with a call under way
	probes int
	echoed map[string]bool // RPCs that have failed with their secrets in the message
	slots  chan struct{}   // full while AtOnce slow calls are made; nil: without limit
}

// Serve runs the plugin once on a unix socket until ctx ends; then every call under way is broken off, as a
// crash would.
func Serve(ctx context.Context, socket string, cfg Config) error {
	cfg, err := cfg.filled()
	if err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	p := &Plugin{
		cfg:    cfg,
		store:  newStore(cfg),
		busy:   map[string]bool{},
		echoed: map[string]bool{},
	}
	if cfg.AtOnce > 0 {
		p.slots = make(chan struct{}, cfg.AtOnce)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(p.intercept), grpc.MaxSendMsgSize(64<<20))
	pb.RegisterIdentityServer(s, p)
	if !cfg.NoControl {
		pb.RegisterControllerServer(s, p)
	}
	if cfg.NodeID != "" {
		pb.RegisterNodeServer(s, p)
	}
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("serve", func() error { return s.Serve(l) })
	g.Go("stop", func() error { <-gctx.Done(); s.Stop(); return nil })
	return g.Wait()
}

// intercept answers ABORTED to a second call on a volume, as the specification allows, and spoils answers as scripted.
func (p *Plugin) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if key := volumeOf(req); key != "" {
		p.mu.Lock()
		if p.busy[key] {
			p.mu.Unlock()
			return nil, status.Errorf(codes.Aborted, "another operation on %q is pending", key)
		}
		p.busy[key] = true
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			delete(p.busy, key)
			p.mu.Unlock()
		}()
	}
	if err := p.authorize(filepath.Base(info.FullMethod), req); err != nil {
		return nil, err
	}
	if err := p.takeTime(ctx, filepath.Base(info.FullMethod)); err != nil {
		return nil, err
	}
	if err := p.sameLogin(req); err != nil {
		return nil, err
	}
	resp, err := next(ctx, req)
	if err == nil {
		p.tellLogin(req, resp)
		p.spoil(filepath.Base(info.FullMethod), resp)
	}
	return resp, err
}

// takeTime lets a slow call take as long as it takes, a limited number of them at once. What the fake does itself comes
// on top: no call waits for that of another.
func (p *Plugin) takeTime(ctx context.Context, rpc string) error {
	takes := p.cfg.Slow[rpc]
	if takes <= 0 {
		return nil
	}
	if p.slots != nil {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if !retry.Sleep(ctx, takes) {
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

func volumeOf(req any) string {
	switch r := req.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case *pb.CreateVolumeRequest:
		return "name " + r.GetName()
	case *pb.CreateSnapshotRequest:
		return r.GetSourceVolumeId()
	}
	return ""
}

// spoil makes a good answer into one that no conforming plugin gives.
func (p *Plugin) spoil(rpc string, resp any) {
	defect, ok := p.cfg.Defects[rpc]
	if !ok {
		return
	}
	switch r := resp.(type) {
	case *pb.CreateVolumeResponse:
		switch defect {
		case DefectEmpty:
			r.Volume = nil
		case DefectLongID:
			r.Volume.VolumeId = string(make129())
		case DefectNegative:
			r.Volume.CapacityBytes = -1
		case DefectHuge:
			r.Volume.VolumeContext = map[string]string{"x": string(make([]byte, 5<<20))}
		case DefectUTF8:
			// A valid field 2 (volume_id) in a raw unknown form would be replaced by the decoder; field 1 of the
			// response, a volume with the id "\xff", is appended as unknown bytes and read as field 1.
			r.Volume = nil
			body := protowire.AppendTag(nil, 2, protowire.BytesType)
			body = protowire.AppendBytes(body, []byte("\xff\xfe"))
			raw := protowire.AppendTag(nil, 1, protowire.BytesType)
			r.ProtoReflect().SetUnknown(protowire.AppendBytes(raw, body))
		}
	case *pb.ControllerPublishVolumeResponse:
		if defect == DefectHuge {
			r.PublishContext = map[string]string{"x": string(slices.Repeat([]byte{'x'}, 5<<20))}
		}
	case *pb.NodeGetInfoResponse:
		switch defect {
		case DefectEmpty:
			r.NodeId = ""
		case DefectNegative:
			r.MaxVolumesPerNode = -1
		}
	case *pb.GetPluginInfoResponse:
		if defect == DefectEmpty {
			r.Name = ""
		}
	case *pb.CreateSnapshotResponse:
		if defect == DefectEmpty {
			r.Snapshot = nil
		}
	case *pb.NodeGetVolumeStatsResponse:
		if defect == DefectNegative && len(r.Usage) > 0 {
			r.Usage[0].Total = -1
		}
	}
}

func make129() []byte { return slices.Repeat([]byte{'v'}, 129) }

// condition gives the wire form of VolumeCondition{abnormal, message}, field 2 of the messages that had it.
func (p *Plugin) condition() []byte {
	if p.cfg.Condition == "" {
		return nil
	}
	body := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	body = protowire.AppendString(protowire.AppendTag(body, 2, protowire.BytesType), p.cfg.Condition)
	return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), body)
}
