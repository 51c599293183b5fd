package injection

import (
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The messages are few, so they have a description here and no generated code.

const serviceName = "p4.bm.DataplaneInterface"

type schema struct {
	request, response, operRequest, operResponse protoreflect.MessageDescriptor
}

func newSchema() (*schema, error) {
	const (
		optional = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		u64      = descriptorpb.FieldDescriptorProto_TYPE_UINT64
		u32      = descriptorpb.FieldDescriptorProto_TYPE_UINT32
		octets   = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		i32      = descriptorpb.FieldDescriptorProto_TYPE_INT32 // as an enum travels
	)
	field := func(name string, number int32, typ descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: new(name), Number: new(number), Label: optional.Enum(), Type: typ.Enum()}
	}
	packet := func(name string) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: new(name), Field: []*descriptorpb.FieldDescriptorProto{
			field("id", 1, u64), field("device_id", 2, u64), field("port", 3, u32), field("packet", 4, octets)}}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("p4/bm/dataplane_interface.proto"), Package: new("p4.bm"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			packet("PacketStreamRequest"), packet("PacketStreamResponse"),
			{Name: new("SetPortOperStatusRequest"), Field: []*descriptorpb.FieldDescriptorProto{
				field("device_id", 1, u64), field("port", 2, u32), field("oper_status", 3, i32)}},
			{Name: new("SetPortOperStatusResponse")},
		},
	}, nil)
	if err != nil {
		return nil, err
	}
	m := file.Messages()
	return &schema{m.Get(0), m.Get(1), m.Get(2), m.Get(3)}, nil
}

func getField(m *dynamicpb.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func setField(m *dynamicpb.Message, name protoreflect.Name, v any) {
	m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOf(v))
}
