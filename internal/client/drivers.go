package client

import (
	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/allocs"
	"berth/internal/client/devicemanager"
	"berth/internal/client/drivermanager"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/java"
	"berth/internal/port/driver/qemu"
	"berth/internal/port/driver/rawexec"
)

// buildDrivers makes the drivers, and what holds the processes of those that launch some.
func (c *Client) buildDrivers(table *allocs.Table) (err error) {
	all := c.cfg.Drivers
	if c.cfg.Shims != nil {
		cfg := *c.cfg.Shims
		cfg.Bundle, cfg.Log = table.EncodedBundle, c.cfg.Log.With(logkey.Component, "shim")
		if c.launcher, err = shim.New(cfg); err != nil {
			return err
		}
		c.shims = shim.NewKeeper(shim.KeeperConfig{
			Launcher: c.launcher,
			Records:  table,
			Dirs:     c.dirs,
			Changed:  table.ShimsChanged,
			Log:      c.log,
		})
		isolated := exec.New(c.cfg.Exec, c.launcher)
		machines := c.cfg.Machines
		machines.Log = c.log
		if err := isolated.Unbounded(); err != nil {
			return fault.Note(err, "configure", `plugin "exec" io_max`)
		}
		all = append([]driver.Driver{
			rawexec.New(c.cfg.RawExec, c.launcher),
			isolated,
			java.New(isolated, ""),
			qemu.New(machines, isolated),
		}, all...)
		if c.cfg.Docker != nil {
			all = append(all, c.docker(*c.cfg.Docker, table))
		}
		programs, devices := c.programs(table, all)
		all, c.beside.devices = append(all, programs...), devices
	}
	if c.beside.devices == nil {
		c.beside.devices = devicemanager.New(devicemanager.Config{Log: c.log})
	}
	c.drivers, err = drivermanager.New(drivermanager.Config{
		Drivers:  all,
		Period:   c.cfg.DriverPeriod,
		Deadline: c.cfg.DriverDeadline,
		Log:      c.log,
	})
	return err
}
