// Calls every GET of a node with a client that was generated from the description that the node serves of itself. Each
// answer must be read into what the description calls it, and be the same when it is written again.
//
//	oapi-codegen -generate types,client -package main -o client.go openapi.json
//	go run . http://127.0.0.1:7890 ADDRESS openapi.json
//
// ADDRESS is that of an account with a transaction; the chain has a mosaic, too.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
)

// The features that are off unless they are asked for.
var statuses = map[string]int{"getAccountHistoricalData": 500, "getMosaicExpired": 500}

// Puts the values that an operation takes into its parameters.
func fill(parameters reflect.Value, values map[string]any) {
	for i := range parameters.NumField() {
		name, _, _ := strings.Cut(parameters.Type().Field(i).Tag.Get("form"), ",")
		value, isGiven := values[name]
		if !isGiven {
			continue
		}
		field := parameters.Field(i)
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		field.Set(reflect.ValueOf(value).Convert(field.Type()))
	}
}

// Calls an operation by its id with what it takes of these values, and looks at the answer.
func call(client *ClientWithResponses, id string, values map[string]any) error {
	method := reflect.ValueOf(client).MethodByName(strings.ToUpper(id[:1]) + id[1:] + "WithResponse")
	if !method.IsValid() {
		return fmt.Errorf("%s was not generated", id)
	}
	arguments := []reflect.Value{reflect.ValueOf(context.Background())}
	if method.Type().NumIn() > 2 {
		parameters := reflect.New(method.Type().In(1).Elem())
		fill(parameters.Elem(), values)
		arguments = append(arguments, parameters)
	}
	results := method.Call(arguments)
	if err, isError := results[1].Interface().(error); isError {
		return fmt.Errorf("%s: %w", id, err)
	}
	answer := results[0].Elem()
	body := answer.FieldByName("Body").Bytes()
	status := int(results[0].MethodByName("StatusCode").Call(nil)[0].Int())
	expected, isExpected := statuses[id]
	if !isExpected {
		expected = 200
	}
	if status != expected {
		return fmt.Errorf("%s: status %d: %s", id, status, body)
	}
	read := answer.FieldByName(fmt.Sprintf("JSON%d", status))
	if !read.IsValid() {
		// A text is not read into anything.
		return nil
	}
	if read.IsNil() {
		return fmt.Errorf("%s is read as nothing: %s", id, body)
	}
	if id == "getOpenApiDocument" {
		// Go reads numbers that no schema describes inexactly.
		return nil
	}
	return same(id, read.Interface(), body)
}

// Whether what was read is what was sent.
func same(id string, read any, sent []byte) error {
	again, err := json.Marshal(read)
	if err != nil {
		return err
	}
	var values [2]any
	for i, text := range [][]byte{again, sent} {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(plain(values[0]), plain(values[1])) {
		return fmt.Errorf("%s was read as %.1000s, and sent as %.1000s", id, again, sent)
	}
	return nil
}

// A value with its numbers as numbers, whichever way they are written.
func plain(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			value[name] = plain(member)
		}
	case []any:
		for i, element := range value {
			value[i] = plain(element)
		}
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		number, _ := value.Float64()
		if number == float64(int64(number)) {
			return int64(number)
		}
		return number
	}
	return value
}

func main() {
	node, address := os.Args[1], os.Args[2]
	text, err := os.ReadFile(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	var description struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &description); err != nil {
		log.Fatal(err)
	}
	client, err := NewClientWithResponses(node)
	if err != nil {
		log.Fatal(err)
	}
	block, err := client.GetLastBlockWithResponse(context.Background())
	if err != nil || block.JSON200 == nil {
		log.Fatal("there is no last block: ", err)
	}
	all := &GetAllAccountTransactionsParams{Address: address}
	transactions, err := client.GetAllAccountTransactionsWithResponse(context.Background(), all)
	if err != nil || transactions.JSON200 == nil || len(transactions.JSON200.Data) == 0 {
		log.Fatal("the account has no transaction: ", err)
	}
	definitions, err := client.GetMosaicDefinitionPageWithResponse(context.Background(), nil)
	if err != nil || definitions.JSON200 == nil || len(definitions.JSON200.Data) == 0 {
		log.Fatal("there is no mosaic: ", err)
	}
	mosaic := definitions.JSON200.Data[0].Mosaic.Id
	// The block before the last one can be found by its hash, too.
	blockValues := map[string]any{"hash": block.JSON200.PrevBlockHash.Data}
	values := map[string]any{
		"address":     address,
		"publicKey":   block.JSON200.Signer,
		"hash":        transactions.JSON200.Data[0].Meta.Hash.Data,
		"namespace":   mosaic.NamespaceId,
		"mosaicId":    mosaic.NamespaceId + ":" + mosaic.Name,
		"startHeight": 1,
		"endHeight":   1,
		"increment":   1,
		"pageSize":    5,
	}
	count := 0
	for path, methods := range description.Paths {
		operation, isGet := methods["get"]
		// The event stream does not end.
		if !isGet || path == "/shutdown" || path == "/events" {
			continue
		}
		given := values
		if path == "/block/get" {
			given = blockValues
		}
		if err := call(client, operation.OperationID, given); err != nil {
			log.Fatal(err)
		}
		count++
	}
	fmt.Printf("a generated Go client: %d kinds of answers read and written again\n", count)
}
