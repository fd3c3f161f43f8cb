package shimproto

func (m *Launch) encode(e *Encoder) {
	e.Text(1, m.Name)
	e.Text(2, m.Task)
	e.List(3, m.Argv)
	e.List(4, m.Env)
	e.Text(5, m.Dir)
	if m.User != nil {
		e.Message(6, m.User)
	}
	e.Message(7, &m.Logs)
	e.Message(8, &m.Limits)
	if m.Isolate != nil {
		e.Message(9, m.Isolate)
	}
	e.List(10, m.Search)
}

func (m *Launch) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Name = v.Text()
		case 2:
			m.Task = v.Text()
		case 3:
			m.Argv = append(m.Argv, v.Text())
		case 4:
			m.Env = append(m.Env, v.Text())
		case 5:
			m.Dir = v.Text()
		case 6:
			m.User = &User{}
			return m.User.decode(v)
		case 7:
			return m.Logs.decode(v)
		case 8:
			return m.Limits.decode(v)
		case 9:
			m.Isolate = &Isolate{}
			return m.Isolate.decode(v)
		case 10:
			m.Search = append(m.Search, v.Text())
		}
		return nil
	})
}

func (m *User) encode(e *Encoder) {
	e.Int(1, int64(m.UID))
	e.Int(2, int64(m.GID))
	for _, g := range m.Groups {
		e.AddInt(3, int64(g))
	}
}

func (m *User) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.UID = uint32(v.Int())
		case 2:
			m.GID = uint32(v.Int())
		case 3:
			m.Groups = append(m.Groups, uint32(v.Int()))
		}
		return nil
	})
}

func (m *Logs) encode(e *Encoder) {
	e.Text(1, m.Dir)
	e.Int(2, int64(m.MaxFiles))
	e.Int(3, m.MaxBytes)
	e.Bool(4, m.Disabled)
}

func (m *Logs) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Dir = v.Text()
		case 2:
			m.MaxFiles = int(v.Int())
		case 3:
			m.MaxBytes = v.Int()
		case 4:
			m.Disabled = v.Bool()
		}
		return nil
	})
}

func (m *Limits) encode(e *Encoder) {
	e.Int(1, m.CPUShares)
	e.Int(2, m.MemoryMax)
	e.Int(3, m.MemoryLow)
	e.Text(4, m.Cpuset)
	e.Bool(5, m.Required)
}

func (m *Limits) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.CPUShares = v.Int()
		case 2:
			m.MemoryMax = v.Int()
		case 3:
			m.MemoryLow = v.Int()
		case 4:
			m.Cpuset = v.Text()
		case 5:
			m.Required = v.Bool()
		}
		return nil
	})
}

func (m *Isolate) encode(e *Encoder) {
	e.Text(1, m.Root)
	e.List(2, m.System)
	for i := range m.Binds {
		e.Message(3, &m.Binds[i])
	}
	for i := range m.Devices {
		e.Message(4, &m.Devices[i])
	}
	e.Text(5, m.Hostname)
	for _, c := range m.Capabilities {
		e.AddInt(6, int64(c))
	}
	for _, c := range m.Ambient {
		e.AddInt(7, int64(c))
	}
	e.Bool(8, m.HostDevices)
	e.Bool(9, m.NoNewPrivileges)
	e.Bool(10, m.HostPID)
	e.Bool(11, m.HostIPC)
	for i := range m.Cgroups {
		e.Message(12, &m.Cgroups[i])
	}
}

func (m *Isolate) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Root = v.Text()
		case 2:
			m.System = append(m.System, v.Text())
		case 3:
			m.Binds = append(m.Binds, Bind{})
			return m.Binds[len(m.Binds)-1].decode(v)
		case 4:
			m.Devices = append(m.Devices, Device{})
			return m.Devices[len(m.Devices)-1].decode(v)
		case 5:
			m.Hostname = v.Text()
		case 6:
			m.Capabilities = append(m.Capabilities, int(v.Int()))
		case 7:
			m.Ambient = append(m.Ambient, int(v.Int()))
		case 8:
			m.HostDevices = v.Bool()
		case 9:
			m.NoNewPrivileges = v.Bool()
		case 10:
			m.HostPID = v.Bool()
		case 11:
			m.HostIPC = v.Bool()
		case 12:
			m.Cgroups = append(m.Cgroups, Bind{})
			return m.Cgroups[len(m.Cgroups)-1].decode(v)
		}
		return nil
	})
}

func (m *Bind) encode(e *Encoder) {
	e.Text(1, m.Source)
	e.Text(2, m.Target)
	e.Bool(3, m.ReadOnly)
	e.Text(4, m.Propagation)
}

func (m *Bind) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.Source = v.Text()
		case 2:
			m.Target = v.Text()
		case 3:
			m.ReadOnly = v.Bool()
		case 4:
			m.Propagation = v.Text()
		}
		return nil
	})
}

func (m *Device) encode(e *Encoder) { e.Text(1, m.HostPath); e.Text(2, m.TaskPath) }

func (m *Device) decode(b []byte) error {
	return fields(b, func(field int, v Value) error {
		switch field {
		case 1:
			m.HostPath = v.Text()
		case 2:
			m.TaskPath = v.Text()
		}
		return nil
	})
}
