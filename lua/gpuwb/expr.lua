-- SPDX-License-Identifier: MIT
-- Expressions of the stage expr: a text becomes a program for a machine with a stack (kernels/expr.h), its numbers beside it.
local ffi = require "ffi"
local check = require "gpuwb.check"
local C = require("gpuwb.cdef").C

local expr = {}

local codes = {}        -- name -> gwb_expr_op
do
    local op = 0
    while C.gwb_expr_name(op) ~= nil do
        codes[ffi.string(C.gwb_expr_name(op))] = op
        op = op + 1
    end
end

local MOST_NUMBERS = 16

local variables = {
    r = {"channel", 0}, g = {"channel", 1}, b = {"channel", 2}, a = {"channel", 3}, c = {"channel", 4},
    c1 = {"channel", 0}, c2 = {"channel", 1}, c3 = {"channel", 2}, c4 = {"channel", 3},
    x = {"place", 0}, y = {"place", 1}, w = {"place", 2}, h = {"place", 3},
}
-- Operands of the functions; min and max take two or more.
local functions = {
    abs = 1, floor = 1, ceil = 1, round = 1, sqrt = 1, exp = 1, exp2 = 1, log = 1, log2 = 1, sin = 1, cos = 1, pow = 2, mod = 2, min = 2, max = 2,
    ["if"] = 3,
}
-- Operators by their binding, loosest first.
local levels = {
    {["or"] = "or", ["||"] = "or"}, {["and"] = "and", ["&&"] = "and"},
    {["<"] = "lt", ["<="] = "le", [">"] = "gt", [">="] = "ge", ["=="] = "eq", ["!="] = "ne", ["~="] = "ne"},
    {["+"] = "add", ["-"] = "sub"}, {["*"] = "mul", ["/"] = "div", ["%"] = "mod"},
}

-- ---- reading

local Reader = {}
Reader.__index = Reader

function Reader:fail(at, format, ...)
    check.fail("BAD_ARGUMENT", self.op, "%s at character %d of %s", format:format(...), at, check.show(self.text))
end

-- The next token and where it begins: a number, a name, a sign, or "" at the end.
function Reader:advance()
    local at = self.text:find("%S", self.at) or #self.text + 1
    local rest = self.text:sub(at)
    local token = rest:match("^%d+%.?%d*[eE][-+]?%d+") or rest:match("^%.%d+[eE][-+]?%d+") or rest:match("^%d+%.?%d*") or rest:match("^%.%d+")
        or rest:match("^[%a_][%w_]*") or rest:match("^[<>=!~]=") or rest:match("^||") or rest:match("^&&") or rest:sub(1, 1)
    self.token, self.start, self.at = token, at, at + #token
end

function Reader:expect(token)
    if self.token ~= token then
        self:fail(self.start, "wanted %q, got %s", token, self.token == "" and "the end" or ("%q"):format(self.token))
    end
    self:advance()
end

function Reader:emit(name, number)
    local list = self.program
    list[#list + 1], list[#list + 2] = codes[name], number or 0
end

function Reader:number(value)
    if #self.numbers == MOST_NUMBERS then
        self:fail(self.start, "more than %d numbers", MOST_NUMBERS)
    end
    self.numbers[#self.numbers + 1] = value
    self:emit("number", #self.numbers - 1)
end

function Reader:call(name, at)
    local count = 0
    self:expect "("
    repeat
        if count > 0 then
            self:advance()
        end
        self:choice()
        count = count + 1
        if count > 2 and (name == "min" or name == "max") then
            self:emit(name)
        elseif count == functions[name] then
            self:emit(name)
        end
    until self.token ~= ","
    self:expect ")"
    if count ~= functions[name] and not (count > 2 and (name == "min" or name == "max")) then
        self:fail(at, "%s takes %d value%s, got %d", name, functions[name], functions[name] > 1 and "s" or "", count)
    end
end

function Reader:primary()
    local token, at = self.token, self.start
    if token == "(" then
        self:advance()
        self:choice()
        self:expect ")"
    elseif token:find("^[%d.]") and tonumber(token) then
        self:number(tonumber(token))
        self:advance()
    elseif functions[token] then
        self:advance()
        self:call(token, at)
    elseif token == "pi" then
        self:number(math.pi)
        self:advance()
    elseif variables[token] then
        self:emit(variables[token][1], variables[token][2])
        self:advance()
    elseif token == "" then
        self:fail(at, "the expression ends")
    else
        self:fail(at, "%q is not known", token)
    end
end

function Reader:unary()
    self.depth = self.depth + 1
    if self.depth > 100 then
        self:fail(self.start, "nested too deeply")
    end
    local sign = self.token
    if sign == "-" or sign == "!" or sign == "not" then
        self:advance()
        self:unary()
        self:emit(sign == "-" and "neg" or "not")
    else
        self:primary()
        if self.token == "^" then
            self:advance()
            self:unary()
            self:emit "pow"
        end
    end
    self.depth = self.depth - 1
end

function Reader:level(n)
    if n > #levels then
        return self:unary()
    end
    self:level(n + 1)
    while levels[n][self.token] do
        local name = levels[n][self.token]
        self:advance()
        self:level(n + 1)
        self:emit(name)
    end
end

function Reader:choice()
    self:level(1)
    if self.token == "?" then
        self:advance()
        self:choice()
        self:expect ":"
        self:choice()
        self:emit "if"
    end
end

-- ---- programs

-- A text, or a list of texts, one a channel -> list of bytes (pairs of operation and number), list of numbers.
function expr.compile(op, name, v)
    local texts = type(v) == "table" and v or {v}
    if #texts < 1 or #texts > 4 then
        check.fail("BAD_ARGUMENT", op, "%s must be an expression, or a list of 1 to 4, got %s", name,
            type(v) == "table" and "a list of " .. #v or check.show(v))
    end
    local program, numbers = {}, {}
    for i, text in ipairs(texts) do
        check.string(op, type(v) == "table" and ("%s[%d]"):format(name, i) or name, text)
        local reader = setmetatable({op = op, text = text, at = 1, program = program, numbers = numbers, depth = 0}, Reader)
        reader:advance()
        reader:choice()
        if reader.token ~= "" then
            reader:fail(reader.start, "wanted an operator or the end, got %q", reader.token)
        end
        reader:emit "next"
    end
    return program, numbers
end

return expr
