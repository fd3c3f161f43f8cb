package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/retry"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker/spec"
)

// labelHolder marks containers by which others join their allocs' networks.
const labelHolder = "berth.network"

const (
	holderImage = "berth-network"
	joinLimit   = 30 * time.Second
	// holderMemory bounds a holder; bytes.
	holderMemory = 64 << 20
	// atNamespace is where a holder finds the alloc's network namespace.
	atNamespace = "/netns"
)

// join has the container be in its alloc's network. A daemon puts containers into the networks of other containers, and
// of nothing else: so a small one is made that goes into the namespace by itself, and which is needed no more once the
// task's has started. leave removes it.
func (d *Driver) join(
	ctx context.Context, cfg *driver.TaskConfig, body *dockerapi.Create,
) (leave func() error, err error) {
	nothing := func() error { return nil }
	if cfg.Network == nil || cfg.Network.Namespace == "" {
		return nothing, nil
	}
	limited, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	fail := func(err error) (func() error, error) {
		return nothing, fault.Note(err, "join", "the allocation's network")
	}
	image, err := d.holderImage(limited)
	if err != nil {
		return fail(err)
	}
	name := holderName(cfg.Alloc, cfg.Task)
	if err := d.removeContainer(limited, name); err != nil { // of an agent that died
		return fail(err)
	}
	id, err := d.create(limited, name, cfg.Alloc, d.holder(cfg, image))
	if err != nil {
		return fail(err)
	}
	leave = func() error { return d.undo(ctx, id) }
	if err := d.enter(limited, id, cfg.Network.Namespace); err != nil {
		return fail(errors.Join(err, leave()))
	}
	body.HostConfig.NetworkMode = "container:" + id
	return leave, nil
}

func holderName(id ids.Alloc, task string) string {
	return "berth-network-" + ids.Short(id) + "-" + task
}

// holder is a container that may do one thing: go into the namespace that it is shown.
func (d *Driver) holder(cfg *driver.TaskConfig, image string) *dockerapi.Create {
	labels := map[string]string{labelHolder: cfg.Task, spec.LabelAlloc: string(cfg.Alloc)}
	if d.cfg.Node != nil {
		labels[spec.LabelNode] = d.cfg.Node().ID
	}
	return &dockerapi.Create{
		Image:    image,
		Cmd:      []string{"/berth-helper", "joinnet", atNamespace},
		Hostname: cfg.Network.Hostname,
		Labels:   labels,
		HostConfig: &dockerapi.Host{
			NetworkMode: "none",
			ReadOnly:    true,
			CapAdd:      []string{"SYS_ADMIN"},
			CapDrop:     []string{"ALL"},
			Mounts:      []dockerapi.Mount{spec.Bind(cfg.Network.Namespace, atNamespace, true, "")},
			LogConfig:   &dockerapi.Log{Type: "none"},
			Memory:      holderMemory,
			MemorySwap:  holderMemory,
			PidsLimit:   32,
		},
	}
}

// enter starts a holder, and returns when it is in the namespace.
func (d *Driver) enter(ctx context.Context, id, namespace string) error {
	want, err := os.Stat(namespace)
	if err != nil {
		return fault.Wrap(err, fault.NotReady, "find", namespace)
	}
	if err := d.api.Start(ctx, id); err != nil {
		return err
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		c, err := d.api.Inspect(ctx, id)
		if err != nil {
			return err
		}
		if !c.State.Running {
			return fault.New(fault.Internal, "", "", "its helper ended with "+strconv.Itoa(c.State.ExitCode))
		}
		is, err := os.Stat("/proc/" + strconv.Itoa(c.State.Pid) + "/ns/net")
		if err == nil && os.SameFile(is, want) {
			return nil
		}
		if !retry.Sleep(ctx, pause) { // what it does can only be seen
			return ctx.Err()
		}
	}
}

// holderImage is the id of an image that holds the helper of this version of Berth alone.
func (d *Driver) holderImage(ctx context.Context) (string, error) {
	if d.cfg.Program == nil {
		return "", fault.New(fault.Unsupported, "", "", "this node has no helper program")
	}
	f, err := d.cfg.Program()
	if err != nil {
		return "", err
	}
	program, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fault.Wrap(err, fault.Internal, "read", "the helper program")
	}
	sum := sha256.Sum256(program)
	tag := hex.EncodeToString(sum[:8])
	found, err := d.api.Image(ctx, holderImage+":"+tag)
	if err == nil {
		return found.ID, nil
	}
	if !fault.Has(err, fault.NotFound) {
		return "", err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = w.WriteHeader(&tar.Header{Name: "berth-helper", Mode: 0o755, Size: int64(len(program))})
	if err == nil {
		_, err = w.Write(program)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return "", fault.Wrap(err, fault.Internal, "pack", "the helper program")
	}
	if err := d.api.Import(ctx, holderImage, tag, &archive); err != nil {
		return "", err
	}
	found, err = d.api.Image(ctx, holderImage+":"+tag)
	if err != nil {
		return "", err
	}
	return found.ID, nil
}
