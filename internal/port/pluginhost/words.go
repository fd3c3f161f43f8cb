package pluginhost

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"

	"berth/internal/base/fault"
)

// maxWord bounds a line of what a plugin says; bytes.
const maxWord = 64 << 10

// listen passes on to the agent's log what the plugin says on its standard error, from here on, and keeps the file
// small. While no agent is there it grows.
func (h *Host) listen(ctx context.Context) error {
	f, err := os.OpenFile(h.cfg.stderrPath(), os.O_RDWR, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", h.cfg.stderrPath())
	}
	defer func() { _ = f.Close() }() // it was read
	watch := h.cfg.Dirs.Watch(h.cfg.Dir)
	defer watch.Close()
	at, err := h.heard(f)
	if err != nil {
		return err
	}
	for {
		if at, err = h.pass(ctx, f, at); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-watch.Changed():
		}
	}
}

// heard is up to where what the plugin said has been passed on: to the end, for whatever is in the file was said to an
// earlier run of the agent, or before the plugin was of use, and is there to be read.
func (h *Host) heard(f *os.File) (int64, error) {
	at, err := f.Seek(0, io.SeekEnd)
	return at, fault.Wrap(err, fault.Internal, "read", h.cfg.stderrPath())
}

// pass passes on the whole lines from a place on, and returns where it stopped.
func (h *Host) pass(ctx context.Context, f *os.File, at int64) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return at, fault.Wrap(err, fault.Internal, "read", h.cfg.stderrPath())
	}
	if st.Size() < at {
		at = 0
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, at, st.Size()-at), maxWord)
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break // its end is not written yet
		}
		at += int64(len(line))
		if err == nil || errors.Is(err, bufio.ErrBufferFull) {
			h.log(ctx, bytes.TrimSpace(line))
			continue
		}
		return at, fault.Wrap(err, fault.Internal, "read", h.cfg.stderrPath())
	}
	if at == st.Size() && at > maxOutput {
		// The plugin writes at the end of the file, wherever that is.
		return 0, fault.Wrap(f.Truncate(0), fault.Internal, "cut", h.cfg.stderrPath())
	}
	return at, nil
}

// levels of hclog, which plugins write.
var levels = map[string]slog.Level{"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "error": slog.LevelError}

// log writes one line into the agent's log. What is no line of hclog is a text that only authors want to see.
func (h *Host) log(ctx context.Context, line []byte) {
	if len(line) == 0 {
		return
	}
	var said map[string]any
	if json.Unmarshal(line, &said) != nil {
		h.cfg.Log.DebugContext(ctx, string(line), h.key(), h.Name())
		return
	}
	message, _ := said["@message"].(string)
	level, _ := said["@level"].(string)
	attrs := []any{h.key(), h.Name()}
	for k, v := range said {
		if k != "@message" && k != "@level" && k != "@timestamp" {
			attrs = append(attrs, k, v)
		}
	}
	h.cfg.Log.Log(ctx, levels[level], message, attrs...)
}
